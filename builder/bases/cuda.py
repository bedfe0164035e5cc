"""The cuda base: NVIDIA's image with Python and a C compiler on top, built by the engine.

Its bytes are BuildKit's and differ from build to build, so it is made once, pushed, and locked by
the digest of the result.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from builder.bases.make import PLACEHOLDER, upstream_version
from builder.bases.state import (
    CUDA_DOCKERFILE,
    CUDA_RECIPE,
    RECIPES,
    CudaRecipe,
    cuda_dockerfile,
    load_cuda_recipe,
)
from builder.engine.client import Engine, RunSpec
from builder.errors import EngineError, LockError, NetworkError
from builder.locking.base_lock import Key, LockedBase, LockedDeb
from builder.matrix.models import Base

LIST_PACKAGES = r"${Package}\t${Version}\t${Architecture}\n"
PACKAGE_LINE = r"^(\S+)\t(\S+)\t(\S+)$"
# BuildKit knows these arguments by itself: they enter neither the image nor its history.
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
LIMIT_S = 300.0  # for one short command in the base, emulated


def make_cuda(engine: Engine, root: Path, base: Base, key: Key, registry: str) -> LockedBase:
    """Build the cuda base on NVIDIA's image and return what came out; it is not pushed yet.

    Raises NetworkError where NVIDIA's image cannot be pulled.
    """
    name = key[0]
    recipe, template = load_cuda_recipe(root), cuda_dockerfile(root)
    reference = built_name(registry, key)
    try:
        engine.bake(definition(recipe, template, base, key, reference, root / RECIPES), (name,))
    except NetworkError as error:
        raise NetworkError(
            f"base {name} was not made, because {base.source} cannot be pulled: {error.what}",
            where=f"bases.{name}.source",
            next_step="make it on a machine that reaches that registry, or build the image's "
                      "cell on the base slim") from error
    return _lock(engine, base, key, reference, recipe.digest_with(base, template))


def built_name(registry: str, key: Key) -> str:
    """Return the name of the newest build, before it has its immutable tag."""
    return f"{registry}/base-{key[0]}:{key[1].removeprefix('linux/')}-new"


def definition(recipe: CudaRecipe, template: str, base: Base, key: Key, reference: str,
               context: Path) -> dict[str, Any]:
    """Return the bake definition; its target has the base's name, ``context`` is not read."""
    name, platform = key
    proxies = {variable: os.environ[variable] for variable in PROXIES if variable in os.environ}
    text = _literal(dockerfile(recipe, template, base.python))
    return {"target": {name: {
        "context": str(context), "dockerfile-inline": text,
        "platforms": [platform], "tags": [reference], "args": {"SOURCE": base.source, **proxies},
        "attest": ["type=provenance,disabled=true"], "network": "host"}}}


def _literal(text: str) -> str:
    """Escape what bake would fill in itself: its JSON has HCL's ``${name}`` and ``%{if}``."""
    return text.replace("${", "$${").replace("%{", "%%{")


def dockerfile(recipe: CudaRecipe, template: str, python: str) -> str:
    """Fill the template's marked places: the packages and the variables."""
    env = "\n".join(f"ENV {name}={json.dumps(value)}" for name, value in recipe.env.items())
    packages = " ".join(recipe.packages_for(python))
    return template.replace("@packages@", packages).replace("@env@", env)


def _lock(engine: Engine, base: Base, key: Key, reference: str, recipe: str) -> LockedBase:
    name, platform = key
    image = engine.inspect(reference)
    if image is None:
        raise EngineError(f"base {name} was built, but the engine does not have it",
                          where=reference, next_step="run the same command again")
    listed = _output(engine, reference, platform, "dpkg-query", "-W", "-f", LIST_PACKAGES)
    debs = [LockedDeb(name=package, version=version, arch=arch, sha256="", size=0, path="")
            for package, version, arch in re.findall(PACKAGE_LINE, listed, re.MULTILINE)]
    python = _output(engine, reference, platform, f"python{base.python}", "-V").strip()
    return LockedBase.model_validate({
        "name": name, "platform": platform, "recipe": recipe, "image_id": image.id,
        "digest": PLACEHOLDER, "diff_ids": image.diff_ids,
        "python": python.removeprefix("Python "),
        "glibc": upstream_version(debs, "libc6", str(CUDA_RECIPE)), "epoch": 0,
        "source": base.source, "packages": debs})


def _output(engine: Engine, reference: str, platform: str, *words: str) -> str:
    """Return what a program of the base prints; raises LockError where it fails.

    Without the image's entry point: NVIDIA's prints a banner of its own on standard output.
    """
    result = engine.run_once(RunSpec(reference, words, platform=platform, entrypoint=""),
                             timeout=LIMIT_S)
    if result.returncode or not result.stdout.strip():
        raise LockError(f"{words[0]} does not run in the base that was built: "
                        f"{result.stderr.strip() or 'it prints nothing'}",
                        where=str(CUDA_DOCKERFILE), next_step=f"check {CUDA_RECIPE}")
    return result.stdout
