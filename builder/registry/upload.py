"""One blob into a repository: looked for, mounted, continued, or sent in chunks.

Where an upload stands is written down after each chunk (``uploads/<key>.json`` in the cache). The
registry is asked before that is believed, and a blob counts only when the registry confirms it.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

from builder.errors import NetworkError, SparkyardError
from builder.files import write_text
from builder.limits import SETTINGS_BYTES, read_file
from builder.registry.body import Piece, Whole
from builder.registry.client import ATTEMPTS, Client, FailingError, RegistryFault, Reply
from builder.removal import remove_file

CHUNK_BYTES = 64 << 20  # what a killed push repeats at most of each blob, where it can go on
_RANGE = re.compile(r"(?:bytes=)?0-(\d{1,18})")
OCTETS = "application/octet-stream"


class Outcome(StrEnum):
    """How a blob came to be in the repository."""

    PRESENT = "present"
    MOUNTED = "mounted"
    SENT = "sent"


@dataclass(frozen=True)
class Blob:
    """Bytes for the registry, in a file or in memory; ``digest`` is ``sha256:…``."""

    digest: str
    size: int
    source: Path | bytes

    def piece(self, offset: int, count: int) -> bytes | Whole:
        """Return what to send as at most ``count`` bytes from ``offset`` on."""
        if isinstance(self.source, bytes):
            return self.source[offset:offset + count]
        return Whole(Piece(self.source, offset, min(count, self.size - offset)))


@dataclass(frozen=True)
class Delivered:
    """A blob that the registry has now: how, and how many bytes this run sent for it."""

    blob: Blob
    outcome: Outcome
    sent: int = 0


class Uploader:
    """Blobs into one repository; ``siblings`` are repositories that may have them already.

    ``journals`` is the folder in which unfinished uploads are written down; ``step`` is told the
    bytes that were sent. May be used by several threads at once.
    """

    def __init__(self, client: Client, journals: Path, siblings: Sequence[str] = (),
                 step: Callable[[int], None] = lambda _count: None) -> None:
        """Nothing is asked yet."""
        self.client, self.journals, self.step = client, journals, step
        own = client.reference.repository
        self.siblings = [name for name in dict.fromkeys(siblings) if name != own]
        self._found: list[str] | None = None
        self._asking = threading.Lock()

    def deliver(self, blob: Blob) -> Delivered:
        """Bring one blob into the repository; raises NetworkError where that is impossible.

        One of which the registry cannot say whether it has it is sent again, which mends it.
        """
        with suppress(FailingError):
            if self._has(blob):
                return Delivered(blob, Outcome.PRESENT)
        if self._mount(blob):
            return Delivered(blob, Outcome.MOUNTED)
        sent = self._send(blob)
        if not self._has(blob):
            raise NetworkError("the registry took a blob and does not have it afterwards",
                               where=f"{self.client.reference}, {blob.digest}",
                               next_step="is this address a registry, and is its disk full?")
        return Delivered(blob, Outcome.SENT, sent)

    def _has(self, blob: Blob, repository: str = "") -> bool:
        url = self.client.url(f"blobs/{blob.digest}", repository)
        reply = self.client.ask("HEAD", url)
        if reply.status in (404, 405):
            return False
        if reply.status != 200:
            raise self._unexpected("a blob", reply)
        digest = reply.header("Docker-Content-Digest") or blob.digest
        if digest != blob.digest or reply.header("Content-Length") != str(blob.size):
            raise NetworkError(
                "the registry has other bytes under this digest\n"
                f"  expected {blob.digest}, {blob.size} bytes\n"
                f"  actual   {digest}, {reply.header('Content-Length') or 'unknown'} bytes",
                where=str(self.client.reference), next_step="the registry is damaged, or another "
                "server answers under its address")
        return True

    def _there(self) -> list[str]:
        """Return the siblings that the registry has; asked once, not for each blob."""
        with self._asking:
            if self._found is None:
                self._found = [name for name in self.siblings if self._is_there(name)]
            return self._found

    def _is_there(self, name: str) -> bool:
        try:
            return self.client.ask("GET", self.client.url("tags/list?n=1", name)).status != 404
        except NetworkError:
            return False  # not to be read by this user, or not answered: nothing is mounted from it

    def _mount(self, blob: Blob) -> bool:
        """Take the blob from a sibling repository, where one has it and the registry can."""
        for name in self._there():
            try:
                if not self._has(blob, name):
                    continue
            except NetworkError:
                continue  # not to be read by this user: the blob is sent instead
            query = f"?mount={quote(blob.digest, safe='')}&from={quote(name, safe='')}"
            try:
                reply = self.client.ask("POST", self.client.url(f"blobs/uploads/{query}"),
                                        mounting=name)
            except NetworkError:
                return False
            if reply.status == 201:
                return self._has(blob)
            if reply.status == 202:  # it opened an upload instead, which is used
                self._note(blob, self.client.location(reply, self.client.url("")))
            return False
        return False

    def _send(self, blob: Blob) -> int:
        """Send what is missing, and again what a fault stopped; return the bytes sent."""
        sent, wrong = [0], 0
        last = RegistryFault("it does not take the blob")
        for attempt in range(ATTEMPTS):
            try:
                reply = self._attempt(blob, sent)
            except RegistryFault as fault:
                last = fault
                if attempt + 1 < ATTEMPTS:
                    self.client.pause(attempt)
                continue
            self._forget(blob)
            if reply.status in (201, 204):
                return sent[0]
            wrong += 1
            if wrong == 2 or reply.status not in (400, 404, 416):
                raise self._unexpected("an upload", reply)
            last = RegistryFault(self.client.answered(reply))  # once more, from the beginning
        raise self.client.given_up(last)

    def _attempt(self, blob: Blob, sent: list[int]) -> Reply:
        """Go on with the blob's upload, or start one; return what its end was answered."""
        location, offset = self._resume(blob) or (self._start(), 0)
        self._note(blob, location)
        while offset < blob.size:
            chunk = blob.piece(offset, CHUNK_BYTES)
            reply = self.client.once(
                "PATCH", location, body=chunk, kind=OCTETS,
                headers={"Content-Range": f"{offset}-{offset + len(chunk) - 1}"})
            if reply.status not in (201, 202, 204):
                return reply
            offset += len(chunk)
            sent[0] += len(chunk)
            self.step(len(chunk))
            location = self.client.location(reply, location)
            self._note(blob, location)
        joint = "&" if "?" in location else "?"
        return self.client.once("PUT", f"{location}{joint}digest={quote(blob.digest, safe='')}",
                                kind=OCTETS)

    def _start(self) -> str:
        url = self.client.url("blobs/uploads/")
        reply = self.client.once("POST", url)
        if reply.status != 202:
            raise self._unexpected("the start of an upload", reply)
        return self.client.location(reply, url)

    def _resume(self, blob: Blob) -> tuple[str, int] | None:
        """Return where an earlier upload of the blob goes on, where the registry still knows it."""
        try:
            noted = json.loads(read_file(self._journal(blob), SETTINGS_BYTES, "upload's note"))
            location = str(noted["location"])
        except (OSError, ValueError, LookupError, TypeError, RecursionError, OverflowError,
                SparkyardError):
            return None
        if not location.startswith(f"{self.client.reference.api}/"):
            return None
        reply = self.client.once("GET", location)
        stands = _RANGE.fullmatch(reply.header("Range"))
        if reply.status not in (202, 204) or stands is None:
            self._forget(blob)
            return None
        offset = int(stands[1]) + 1
        if offset == 1 or offset > blob.size:  # "0-0" may mean nothing as well as one byte
            return None
        new = reply.header("Location")
        return (self.client.location(reply, location) if new else location), offset

    def _journal(self, blob: Blob) -> Path:
        name = f"{self.client.reference.host}/{self.client.reference.repository}@{blob.digest}"
        return self.journals / f"{hashlib.sha256(name.encode()).hexdigest()}.json"

    def _note(self, blob: Blob, location: str) -> None:
        # Not flushed: that would wait for all that the registry writes to the same disk, and the
        # registry is asked before a note is believed.
        write_text(self._journal(blob), json.dumps({"location": location}) + "\n", flush=False)

    def _forget(self, blob: Blob) -> None:
        if self._journal(blob).exists():
            remove_file(self._journal(blob), self.journals)

    def _unexpected(self, what: str, reply: Reply) -> NetworkError:
        return NetworkError(f"the registry does not take {what}: {self.client.answered(reply)}",
                            where=str(self.client.reference),
                            next_step="is this address a registry, and may this user push to it?")
