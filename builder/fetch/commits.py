"""The files of one commit, as an archive in the store: sources that no package index has.

git fetches the commit alone and checks every object of it by its name. The archive is our own
normalised tar of its files, so it has one sha256 on every machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from builder import console, process
from builder import git_library as git
from builder.errors import IntegrityError, LockError, NetworkError
from builder.files import disk_errors
from builder.limits import COMMIT_BYTES, COMMIT_FILES, COMMIT_S, MB, SETTINGS_BYTES, TooMuchError
from builder.locking.lock import LockedWheel
from builder.store.content_store import Store
from builder.tarball import CHUNK_BYTES, File, Tar, write_tar
from builder.text import one_line, redact

SHOWN = 400  # characters of what git says
# Nothing is asked of a terminal, and no address starts a program of its own (ext::). What the
# user's configuration puts in an address's place (insteadOf) is taken: a mirror may be local.
ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "force", "LC_ALL": "C",
               "GIT_ALLOW_PROTOCOL": "https:ssh:file"}
REGULAR, EXECUTABLE = 0o100644, 0o100755
# git knows no limit for what it receives, the kernel knows one for a file, in blocks of 512 bytes.
LIMITED = ("sh", "-c", 'ulimit -f "$1"; shift; exec "$@"', "sh")
ONE_PACK = ("-c", "fetch.unpackLimit=1")  # all that is received goes into one file


@dataclass(frozen=True)
class CommitSource:
    """A commit of a repository."""

    repository: str
    commit: str


def fetch_commit(source: CommitSource, archive: LockedWheel, store: Store) -> Path:
    """Return the archive of a commit's files, made where the store lacks it.

    Links and submodules are left out. Raises NetworkError where the commit cannot be fetched or
    holds more than sources do, IntegrityError where its archive is not the locked one.
    """
    there = store.find_wheel(archive)
    if there is not None:
        return there
    with store.temporary("commit") as folder, disk_errors(store.root, "while sources were fetched"):
        with git.Repo.init(folder / "repository", mkdir=True, bare=True) as repo:
            console.info(f"fetching {source.repository} {source.commit[:12]}")
            tar = _archived(folder / archive.file, _fetched(repo, source), source)
        if tar.digest != archive.sha256:
            raise IntegrityError(
                archive.file, expected=archive.sha256, actual=tar.digest,
                next_step=f"the commit's files are {tar.size} bytes with that sha256: write both "
                "into the recipe if you trust the commit")
        if tar.size != archive.size:
            raise LockError(f"{archive.file} has {tar.size} bytes, not {archive.size}",
                            where=archive.name, next_step="write that size into the recipe")
        return store.add_wheel(archive, tar.path)


def _archived(target: Path, commit: git.Commit, source: CommitSource) -> Tar:
    """Write the commit's files below a folder of the archive's name."""
    try:
        return write_tar(target, _files(commit, target.name.removesuffix(".tar")))
    except (TooMuchError, ValueError) as error:
        raise NetworkError(
            f"the commit {source.commit[:12]} is no archive of sources: "
            + one_line(str(error), SHOWN),
            where=source.repository, next_step="name another commit") from error


def _fetched(repo: git.Repo, source: CommitSource) -> git.Commit:
    """Fetch the commit without its history."""
    words = [*LIMITED, str(COMMIT_BYTES // 512), "git", *ONE_PACK, "fetch", "--quiet", "--depth=1",
             "--no-tags", "--no-recurse-submodules", "--", source.repository, source.commit]
    try:
        process.run(words, cwd=Path(repo.git_dir), timeout=COMMIT_S, limit=SETTINGS_BYTES,
                    env={"SSH_ASKPASS": os.environ.get("SSH_ASKPASS", "false"), **ENVIRONMENT})
        return repo.commit(source.commit)
    except (process.CommandError, git.exc.GitError, ValueError) as error:
        packs = Path(repo.git_dir, "objects", "pack").iterdir()
        full = any(path.stat().st_size >= COMMIT_BYTES // 512 * 512 for path in packs)
        said = error.result.stderr if isinstance(error, process.CommandError) else str(error)
        said = redact(said[:20 * SHOWN])
        raise NetworkError(
            f"the commit {source.commit[:12]} could not be fetched: "
            + (f"more than {COMMIT_BYTES / MB:g} MB" if full else one_line(said, SHOWN)),
            where=source.repository,
            next_step="check the address and that the commit is still there; for a mirror set "
            "`git config --global url.MIRROR.insteadOf ADDRESS`") from error


def _files(commit: git.Commit, top: str) -> Iterator[File]:
    """Yield the regular files of a commit below one top folder, to be read one after another.

    A small pack can stand for files without end, since one object may be named many times.
    """
    total = 0
    for count, item in enumerate(commit.tree.traverse(branch_first=False)):
        if count == COMMIT_FILES:
            raise TooMuchError(f"more than {COMMIT_FILES:,} files")
        if isinstance(item, git.Blob) and item.mode in (REGULAR, EXECUTABLE):
            total += item.size
            if total > COMMIT_BYTES:
                raise TooMuchError(f"files of more than {COMMIT_BYTES / MB:g} MB")
            yield File(f"{top}/{item.path}", item.size, partial(_read, item),
                       item.mode == EXECUTABLE)


def _read(blob: git.Blob) -> Iterator[bytes]:
    stream = blob.data_stream
    while chunk := stream.read(CHUNK_BYTES):
        yield chunk
