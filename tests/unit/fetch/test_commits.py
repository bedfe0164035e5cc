"""Sources of a commit, out of a real repository in place of the hosting service."""

from __future__ import annotations

import random
import subprocess
import tarfile
from pathlib import Path

import git
import pytest

from builder.errors import IntegrityError, LockError, NetworkError
from builder.fetch import commits
from builder.fetch.commits import CommitSource, fetch_commit
from builder.store.content_store import Store
from builder.wheels.native import read_sources
from builder.wheels.sources import Archive, fetch_files

ADDRESS = "https://git.example/spam.git"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommitSource:
    """Make a repository of two commits, and take it for the hosting service; return the first."""
    folder = tmp_path / "repository"
    (folder / "csrc").mkdir(parents=True)
    (folder / "csrc/a.cu").write_text("one\n")
    (folder / "build.sh").write_text("#!/bin/sh\n")
    (folder / "build.sh").chmod(0o755)
    (folder / "link").symlink_to("csrc/a.cu")
    with git.Repo.init(folder) as repo, repo.config_writer() as config:
        config.set_value("user", "name", "x").set_value("user", "email", "x@example.org")
        repo.git.add("--all")
        repo.git.commit("--quiet", "--message", "first")
        first = repo.head.commit.hexsha
        (folder / "csrc/a.cu").write_text("two\n")
        repo.git.commit("--quiet", "--all", "--message", "second")
    for name, value in (("COUNT", "1"), ("KEY_0", f"url.{folder.as_uri()}.insteadOf"),
                        ("VALUE_0", ADDRESS)):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    return CommitSource(ADDRESS, first)


def archive(sha256: str = "0" * 64, size: int = 1) -> Archive:
    return Archive(name="spam", version="1.0", file="spam-1.0.tar", sha256=sha256, size=size)


def test_the_files_of_a_commit_become_one_archive_by_its_sha256(source: CommitSource,
                                                                tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with pytest.raises(IntegrityError, match="differs from the lock") as other:
        fetch_commit(source, archive(), store)
    size = int(other.value.next_step.split(" bytes")[0].split()[-1])
    with pytest.raises(LockError, match=f"has {size} bytes, not 1"):
        fetch_commit(source, archive(other.value.actual), store)
    locked = archive(other.value.actual, size)
    path = fetch_commit(source, locked, store)
    with tarfile.open(path) as tar:
        files = {member.name: member.mode for member in tar if member.isreg()}
        assert files == {"spam-1.0/build.sh": 0o755, "spam-1.0/csrc/a.cu": 0o644}
    blob = read_sources(path, frozenset({"csrc/a.cu"})).read("csrc/a.cu")
    assert blob
    assert blob.data == b"one\n"
    away = CommitSource("https://gone.example/spam.git", source.commit)
    assert fetch_commit(away, locked, store) == path, "what the store has is not asked for"
    asked = locked.model_copy(update={"commit": source})
    assert fetch_files("cell", [asked], Store(tmp_path / "other"), {})[asked].name == path.name


def test_a_commit_that_is_not_there_is_said(source: CommitSource, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="could not be fetched") as gone:
        fetch_commit(CommitSource(source.repository, "1" * 40), archive(), Store(tmp_path / "s"))
    assert gone.value.where == ADDRESS


def test_an_address_that_starts_a_program_is_refused(tmp_path: Path) -> None:
    for address in (f"ext::touch {tmp_path / 'made'}", "--upload-pack=touch made"):
        with pytest.raises(NetworkError, match="could not be fetched"):
            fetch_commit(CommitSource(address, "1" * 40), archive(), Store(tmp_path / "s"))
    assert not (tmp_path / "made").exists()


def test_a_program_that_says_too_much_is_ended(tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "ssh"
    script.write_text("#!/bin/sh\nyes 'ATOKEN=secret-secret-1' >&2\n")
    script.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(script))
    monkeypatch.setattr(commits, "COMMIT_S", 60.0)  # what it is ended after without a limit
    said = refused(CommitSource("ssh://h/x.git", "a" * 40), tmp_path)
    assert "it printed more than 1 MB" in said.what


@pytest.mark.parametrize("named", [None, "/usr/bin/mine"])
def test_ssh_asks_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                              named: str | None) -> None:
    script = tmp_path / "ssh"
    script.write_text('#!/bin/sh\necho "asks with $SSH_ASKPASS, $SSH_ASKPASS_REQUIRE" >&2\n')
    script.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(script))
    monkeypatch.delenv("SSH_ASKPASS", raising=False)
    if named:
        monkeypatch.setenv("SSH_ASKPASS", named)
    said = refused(CommitSource("ssh://h/x.git", "a" * 40), tmp_path)
    assert f"asks with {named or 'false'}, force" in said.what


def committed(folder: Path, *entries: str) -> CommitSource:
    """Commit a tree of these lines of ``git mktree`` and return the source."""
    with git.Repo(folder) as repo:
        return CommitSource(ADDRESS, repo.git.commit_tree(tree(repo, *entries), "-m", "x"))


def tree(repo: git.Repo, *entries: str) -> str:
    """Write a tree and return its name."""
    made = subprocess.run(["git", "mktree"], input="\n".join(entries), cwd=repo.git_dir, text=True,
                          capture_output=True, check=True)
    return made.stdout.strip()


def blob(repo: git.Repo, data: bytes) -> str:
    """Write a blob and return its name."""
    made = subprocess.run(["git", "hash-object", "-w", "--stdin"], input=data, cwd=repo.git_dir,
                          capture_output=True, check=True)
    return made.stdout.decode().strip()


def refused(source: CommitSource, tmp_path: Path) -> NetworkError:
    """Return why a commit is refused; nothing of it is left."""
    store = Store(tmp_path / "store")
    with pytest.raises(NetworkError) as error:
        fetch_commit(source, archive(), store)
    assert not any((store.root / "tmp").iterdir())
    assert store.find_wheel(archive()) is None
    return error.value


@pytest.mark.usefixtures("source")
def test_what_is_received_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with git.Repo(tmp_path / "repository") as repo:
        name = blob(repo, random.Random(1).randbytes(1 << 20))
    large = committed(tmp_path / "repository", f"100644 blob {name}\ta")
    monkeypatch.setattr(commits, "COMMIT_BYTES", 100_000)
    assert "could not be fetched: more than 0.1 MB" in str(refused(large, tmp_path))
    monkeypatch.setattr(commits, "COMMIT_BYTES", 2_000_000)
    with pytest.raises(IntegrityError, match="differs from the lock"):
        fetch_commit(large, archive(), Store(tmp_path / "other"))


@pytest.mark.usefixtures("source")
def test_a_small_pack_of_files_without_end_is_refused(tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    with git.Repo(tmp_path / "repository") as repo:
        name = tree(repo, f"100644 blob {blob(repo, bytes(1 << 20))}\ta")
        for _ in range(5):  # 100,000 files of 1 MiB out of 7 objects
            name = tree(repo, *(f"040000 tree {name}\t{number}" for number in range(10)))
    bomb = committed(tmp_path / "repository", f"040000 tree {name}\tcsrc")
    monkeypatch.setattr(commits, "COMMIT_BYTES", 50_000_000)
    assert "files of more than 50 MB" in str(refused(bomb, tmp_path))
    monkeypatch.setattr(commits, "COMMIT_BYTES", 1 << 60)
    monkeypatch.setattr(commits, "COMMIT_FILES", 100)
    assert "more than 100 files" in str(refused(bomb, tmp_path))


@pytest.mark.usefixtures("source")
def test_a_name_that_no_archive_may_hold_is_said(tmp_path: Path) -> None:
    with git.Repo(tmp_path / "repository") as repo:
        name = blob(repo, b"x")
    strange = committed(tmp_path / "repository", f"100644 blob {name}\t.wh.csrc")
    assert ".wh.csrc' would delete files below its layer" in str(refused(strange, tmp_path))
