"""An image's description: only what its inputs say, and nothing of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder import labels as label
from builder.image import definition, dockerfile, environment, plan_image
from builder.layers import contract
from builder.locking.base_lock import LockedBase
from builder.locking.lock import Lock, LockedWheel
from builder.matrix.cells import Cell, expand
from builder.matrix.load import load_matrix
from builder.store.content_store import StoredLayer

ROOT = Path(__file__).parents[2]
CELLS = {cell.id: cell for cell in expand(load_matrix(ROOT / "matrix.toml"))}
DIGEST = "sha256:" + "a" * 64


def a_lock(cell: Cell, version: str = "0.20.2") -> Lock:
    wheel = LockedWheel(name=cell.vllm_package, version=version, file="vllm-1-py3-none-any.whl",
                        sha256="b" * 64, size=1, index="default")
    return Lock(cell=cell.id, intent=cell.intent_digest, python="3.11", platform="x",
                wheels=(wheel,))


def a_base(unlocked: str = "") -> LockedBase:
    return LockedBase(name="slim", platform="linux/arm64", recipe=DIGEST, image_id=DIGEST,
                      digest=DIGEST, diff_ids=(DIGEST,), python="3.11.2", glibc="2.36", epoch=0,
                      unlocked=unlocked, packages=())


def a_plan(version: str = "0.20.2", unlocked: str = ""):
    cell = CELLS["tf5"]
    return plan_image(cell, a_lock(cell, version), a_base(unlocked), "r/base@" + DIGEST, "r", ROOT)


def test_the_same_inputs_give_the_same_plan() -> None:
    assert a_plan() == a_plan()


def test_another_wheel_gives_other_inputs_and_another_immutable_tag() -> None:
    assert a_plan().inputs != a_plan("0.20.3").inputs
    assert a_plan().tag != a_plan("0.20.3").tag
    assert a_plan().name == a_plan("0.20.3").name


def test_the_tag_says_what_is_inside() -> None:
    assert a_plan().tag.startswith("r/tf5:tf5-vllm0.20.2-cu130-")


def test_a_local_version_makes_a_valid_tag() -> None:
    assert "+" not in a_plan("0.20.2+sy.1").tag


def test_an_image_on_an_unlocked_base_says_so() -> None:
    assert a_plan().labels[label.STATUS] == "locked"
    assert a_plan(unlocked="made here").labels[label.STATUS] == "unlocked"


def test_labels_name_versions_and_lock() -> None:
    labels = a_plan().labels
    assert labels[label.OCI + "version"] == "0.20.2"
    assert labels[label.PREFIX + "version.vllm"] == "0.20.2"
    assert labels[label.LOCK].startswith("sha256:")


def test_cuda_cells_name_the_compiler_of_their_base() -> None:
    slim, cuda = environment(CELLS["tf5"]), environment(CELLS["tf5-cuda"])
    assert slim["CUDA_HOME"].endswith("/site-packages/nvidia/cu13")
    assert cuda["CUDA_HOME"] == "/usr/local/cuda"
    assert slim["TORCH_CUDA_ARCH_LIST"] == "12.1a"


def test_cpu_cells_name_no_compiler() -> None:
    assert not {"CUDA_HOME", "TORCH_CUDA_ARCH_LIST"} & set(environment(CELLS["cpu"]))


def test_nothing_needs_the_home_folder_of_root() -> None:
    for cell in (CELLS["cpu"], CELLS["tf5"]):
        env = environment(cell)
        assert (env["HOME"], env["HF_HOME"]) == ("/tmp", "/cache/huggingface")
        assert not [value for value in env.values() if "/root" in value]
    lines = dockerfile(a_plan(), []).splitlines()
    assert "WORKDIR /workspace" in lines
    assert not [line for line in lines if line.startswith("ENTRYPOINT")]


def test_other_writable_folders_make_another_image(monkeypatch: pytest.MonkeyPatch) -> None:
    before = a_plan().inputs
    monkeypatch.setattr(contract, "WRITABLE", (*contract.WRITABLE, "/data"))
    assert a_plan().inputs != before


def test_the_dockerfile_only_adds_layers_in_order() -> None:
    layers = [StoredLayer(digest=letter * 64, size=1, path=Path(letter), facts={})
              for letter in "cd"]
    lines = dockerfile(a_plan(), layers).splitlines()
    assert [line for line in lines if line.startswith("ADD")] == [
        f"ADD --link {'c' * 64}.tar /", f"ADD --link {'d' * 64}.tar /"]
    assert not [line for line in lines if line.split(" ")[0] in ("RUN", "COPY")]
    assert "@" not in "".join(line for line in lines if not line.startswith(("#", "FROM")))


def test_the_definition_has_no_provenance_and_a_fixed_time() -> None:
    target = definition(a_plan(), [], Path("layers"), "v1")["target"]["image"]
    assert target["attest"] == ["type=provenance,disabled=true"]
    assert int(target["args"]["SOURCE_DATE_EPOCH"]) >= 0
    assert target["labels"][label.PREFIX + "buildkit"] == "v1"
