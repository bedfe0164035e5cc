"""RECORD, the list of a wheel's files with their hashes, against the bytes that are there."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping

from builder.binaries.facts import Damage

_UNLISTED = ("/RECORD", "/RECORD.jws", "/RECORD.p7s")  # of .dist-info; cannot list themselves


def compare(record: str, members: Mapping[str, str], there: Collection[str]) -> Iterator[Damage]:
    """Yield where RECORD's text and the members (name to sha256 as RECORD spells it) differ.

    ``there`` are the names of all members, those that could not be read too. Hashes of other kinds
    than sha256 are allowed by the format and not judged.
    """
    try:
        rows = {row[0]: row[1] for row in csv.reader(record.splitlines()) if len(row) >= 2}
    except csv.Error as error:
        yield Damage("record-damaged", "RECORD", str(error))
        return
    for name, found in members.items():
        kind, _, wanted = rows.get(name, "").partition("=")
        if name not in rows:
            if not (name.endswith(_UNLISTED) and name.count("/") == 1):
                yield Damage("record-unlisted", name, "is not listed in RECORD")
        elif kind == "sha256" and wanted.rstrip("=") != found:
            yield Damage("record-differs", name, f"RECORD says sha256={wanted}, it has {found}")
    yield from (Damage("record-absent", name, "is listed in RECORD and not there")
                for name in rows if name not in there)
