"""What all generated files in ``locks/`` share: read within limits, and judged whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tomli

from builder.errors import LockError, UsageError
from builder.limits import LOCK_BYTES, read_file


def read_generated(path: Path, what: str, next_step: str) -> dict[str, Any] | None:
    """Return the TOML document in ``path``, None where there is no such file.

    Raises LockError for what cannot be read as TOML, in any way.
    """
    try:
        return tomli.loads(read_file(path, LOCK_BYTES, what).decode("utf-8"))
    except FileNotFoundError:
        return None
    except UsageError as error:
        raise DamagedLockError(error.what, where=str(path), next_step=next_step) from error
    except RecursionError as error:
        raise damaged(what, ["nested too deeply"], path, next_step) from error
    except (ValueError, OSError) as error:
        raise damaged(what, [str(error)], path, next_step) from error


class DamagedLockError(LockError):
    """A generated file is not as this program writes it: edited, badly merged or cut off."""


def damaged(what: str, faults: Sequence[str], path: Path, next_step: str) -> DamagedLockError:
    """Return the error that names every fault of a generated file."""
    lines = "\n".join(f"  {fault}" for fault in faults)
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return DamagedLockError(f"the {what} is damaged, {count}:\n{lines}", where=str(path),
                            next_step=next_step)


def repeated(values: Iterable[str]) -> list[str]:
    """Return the values that come more than once."""
    return [value for value, count in Counter(values).items() if count > 1]


def in_order(keys: Iterable[tuple[str, ...]]) -> bool:
    """Say whether the keys are sorted, as they are written."""
    listed = list(keys)
    return listed == sorted(listed)
