"""What the registry keeps of a base: the locked image alone, and packages by their sha256."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from registry_server import RegistryServer, serving

from builder.bases.retained import (
    RetainedPackages,
    image_digest,
    keep_packages,
    packages_kept,
    packages_manifest,
    packages_tag,
    repository_of,
)
from builder.debian.fetch import GoneError, fetch_debs, place
from builder.errors import IntegrityError, NetworkError
from builder.locking.base_lock import LockedBase, LockedDeb
from builder.registry.client import ATTEMPTS, Client
from builder.registry.repository import INDEX_TYPE, Repository
from tests.unit.fake_repository import Memory, digest_of, put_image, repository
from tests.unit.locking.test_base_lock import make_base

ANOTHER = "sha256:" + 64 * "9"


def a_deb(name: str) -> LockedDeb:
    data = name.encode()
    return LockedDeb(name=name, version="1.0", arch="all", size=len(data),
                     sha256=hashlib.sha256(data).hexdigest(), path=f"pool/main/{name}_1.0_all.deb")


DEBS = (a_deb("adduser"), a_deb("gcc"))
BASE = make_base(packages=DEBS)


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with serving() as state:
        yield state


def there(server: RegistryServer) -> Repository:
    return repository_of(f"{server.host}/ns", BASE)


def filled(cache: Path, debs: tuple[LockedDeb, ...] = DEBS) -> Path:
    (cache / "debs").mkdir(parents=True)
    for deb in debs:
        place(cache / "debs", deb).write_bytes(deb.name.encode())
    return cache


def locked(memory: Memory, **changes: str) -> LockedBase:
    image = put_image(memory, "base", tags=["cpu"])
    return make_base(**{"image_id": image.config, "digest": image.digest, **changes})


def test_the_locked_image_is_found_under_its_tag() -> None:
    memory = Memory()
    base = locked(memory, digest=ANOTHER)
    assert image_digest(repository(memory), base) == memory.tags["cpu"]


def test_an_image_whose_id_is_its_manifest_is_found() -> None:
    """Engines with containerd's store call the manifest's digest the id."""
    memory = Memory()
    image = put_image(memory, "base", tags=["cpu"])
    assert image_digest(repository(memory), make_base(image_id=image.digest)) == image.digest


def test_an_image_in_a_list_is_found() -> None:
    memory = Memory()
    image = put_image(memory, "base")
    index = (f'{{"mediaType": "{INDEX_TYPE}", "manifests": [{{"digest": "{ANOTHER}"}}, 7, '
             f'{{"digest": "{image.digest}"}}]}}').encode()
    memory.manifests[digest_of(index)] = (index, INDEX_TYPE)
    memory.tags["cpu"] = digest_of(index)
    assert image_digest(repository(memory), make_base(image_id=image.config)) == digest_of(index)


def test_an_altered_image_is_named_and_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    memory = Memory()
    base = locked(memory, digest=ANOTHER)
    memory.tags["cpu"] = put_image(memory, "altered").digest
    assert image_digest(repository(memory), base) is None
    assert "its configuration is not the locked one: it is not used" in capsys.readouterr().err


def test_under_an_altered_tag_the_locked_digest_still_counts() -> None:
    memory = Memory()
    base = locked(memory)
    memory.tags["cpu"] = put_image(memory, "altered").digest
    assert image_digest(repository(memory), base) == base.digest


def test_other_bytes_under_the_locked_digest_are_not_used(capsys: pytest.CaptureFixture[str]
                                                          ) -> None:
    memory = Memory()
    base = locked(memory)
    del memory.tags["cpu"]
    memory.manifests[base.digest] = (b'{"config": {}}', "x")
    assert image_digest(repository(memory), base) is None
    assert "other bytes than those of the digest" in capsys.readouterr().err


def test_a_registry_without_it_gives_none() -> None:
    assert image_digest(repository(Memory()), BASE) is None


def test_packages_are_kept_once_and_given_back(server: RegistryServer, tmp_path: Path) -> None:
    cache = filled(tmp_path / "cache")
    assert not packages_kept(there(server), BASE)
    assert keep_packages(there(server), BASE, cache) == 2
    assert packages_kept(there(server), BASE)
    sent = server.count("PATCH")
    assert keep_packages(there(server), BASE, cache) == 0
    assert server.count("PATCH") == sent
    fetched = fetch_debs(DEBS, [RetainedPackages(f"{server.host}/ns", BASE)], tmp_path / "new")
    assert [path.read_bytes() for path in fetched.paths] == [b"adduser", b"gcc"]


def test_a_base_with_other_packages_sends_only_the_new_ones(server: RegistryServer, tmp_path: Path
                                                            ) -> None:
    keep_packages(there(server), BASE, filled(tmp_path / "a"))
    renewed = BASE.model_copy(update={"packages": (DEBS[0], a_deb("make")), "image_id": ANOTHER})
    assert keep_packages(there(server), renewed, filled(tmp_path / "b", renewed.packages)) == 1
    assert packages_kept(there(server), BASE)
    assert packages_tag(renewed) == "arm64-999999999999.packages"


def test_a_run_that_was_killed_before_the_manifest_is_completed(server: RegistryServer,
                                                                tmp_path: Path) -> None:
    cache = filled(tmp_path / "cache")
    keep_packages(there(server), BASE, cache)
    server.manifests.clear()
    del server.blobs["ns/base-slim", f"sha256:{DEBS[1].sha256}"]
    assert not packages_kept(there(server), BASE)
    assert keep_packages(there(server), BASE, cache) == 1
    assert packages_kept(there(server), BASE)


def test_packages_whose_tag_the_registry_cannot_read_are_kept_anew(
        server: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_packages(there(server), BASE, filled(tmp_path))
    put = server.count("PUT")
    monkeypatch.setattr(Client, "pause", lambda *_: None)
    server.faults = {"GET": [500] * ATTEMPTS}
    assert not packages_kept(there(server), BASE)
    server.faults = {"GET": [500] * ATTEMPTS}
    assert keep_packages(there(server), BASE, tmp_path) == 0
    assert server.count("PUT") == put + 1, "the manifest alone"
    assert packages_kept(there(server), BASE)


def test_altered_packages_are_refused(server: RegistryServer, tmp_path: Path) -> None:
    keep_packages(there(server), BASE, filled(tmp_path / "cache"))
    server.blobs["ns/base-slim", f"sha256:{DEBS[1].sha256}"] = b"bad"
    source = RetainedPackages(f"{server.host}/ns", BASE)
    with pytest.raises((NetworkError, IntegrityError), match=r"gcc 1\.0|differs"):
        fetch_debs(DEBS, [source], tmp_path / "new")
    assert not place(tmp_path / "new/debs", DEBS[1]).exists()


def test_a_registry_that_lacks_a_package_says_so(server: RegistryServer, tmp_path: Path) -> None:
    with pytest.raises(GoneError, match="does not have adduser"):
        fetch_debs(DEBS, [RetainedPackages(f"{server.host}/ns", BASE)], tmp_path)


def test_the_artifact_names_each_package_by_the_digest_of_the_lock() -> None:
    manifest = packages_manifest(BASE)
    assert isinstance(manifest.source, bytes)
    for deb in DEBS:
        assert f'"digest":"sha256:{deb.sha256}"'.encode() in manifest.source
    assert b'"adduser_1.0_all.deb"' in manifest.source
