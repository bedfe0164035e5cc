"""Files that two wheels bring: harmless when they are equal, worth a word when they are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from builder.errors import UsageError
from builder.layers.distinfo import installed
from builder.layers.wheel_contents import Layout
from builder.tarball import File, parents


@dataclass(frozen=True)
class Collision:
    """One path that several wheels write with different bytes; the last of ``wheels`` wins."""

    path: str
    wheels: tuple[str, ...]

    @property
    def line(self) -> str:
        """Return the collision in one line for people."""
        return (f"/{self.path} is brought by {', '.join(self.wheels)} with different contents; "
                f"{self.wheels[-1]}'s is in the image")


def find_collisions(metadata: Mapping[str, Sequence[File]], layout: Layout) -> list[Collision]:
    """Return the differing files of all wheels (name -> metadata files, by name), by path.

    Raises UsageError where one wheel has a file in the place of another's folder.
    """
    seen: dict[str, list[tuple[str, str]]] = {}
    for name, files in metadata.items():
        for path, digest in installed(files, layout):
            seen.setdefault(path, []).append((name, digest))
    _refuse_file_as_folder(seen)
    return [Collision(path, tuple(name for name, _ in claims))
            for path, claims in sorted(seen.items()) if len({digest for _, digest in claims}) > 1]


def owners(metadata: Mapping[str, Sequence[File]], layout: Layout) -> dict[str, str]:
    """Return for each path the wheel whose bytes are in the image: the last by name."""
    return {path: name for name, files in metadata.items() for path, _ in installed(files, layout)}


def _refuse_file_as_folder(seen: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    folders = {folder: path for path in seen for folder in parents(path)}
    for path in sorted(folders.keys() & seen.keys()):
        below = folders[path]
        raise UsageError(
            f"/{path} is a file in {seen[path][0][0]} and a folder in {seen[below][0][0]}",
            where=f"{seen[path][0][0]}, {seen[below][0][0]}",
            next_step="one of the two wheels must be left out or locked at another version")
