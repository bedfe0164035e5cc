"""``wheels/<package>.toml``: how a package's extension modules are compiled, as frozen models.

All errors of a file are reported at once, each with its dotted key. What only people read
(descriptions, measured times) is apart from what the compiled bytes depend on: ``Recipe.inputs``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.utils import canonicalize_name
from pydantic import AfterValidator, Field

from builder.config_file import read_toml, shape_problems
from builder.errors import ConfigError, Problem
from builder.indexes.settings import DEFAULT_INDEX
from builder.locking.lock import LockedWheel, Sha256
from builder.matrix.patch import COMMIT
from builder.model import Frozen, Link, PackageName
from builder.wording import WrongValueError

FOLDER = "wheels"
# As in TORCH_CUDA_ARCH_LIST: 12.1a, or 12.0f for the family.
Architecture = Annotated[str, Field(pattern=r"^\d{1,2}\.\d[af]?$")]
TargetName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _relative(text: str) -> str:
    if (text.startswith("/") or "\\" in text or not text.isprintable()
            or {"", ".", ".."} & {*text.split("/")}):
        raise WrongValueError(f"{text!r} does not lie in the package",
                              "write the path from the package's top folder")
    return text


RelativePath = Annotated[str, AfterValidator(_relative)]


class SourceFile(Frozen):
    """A source archive on the package index, by sha256."""

    file: Annotated[str, Field(pattern=r"^[\w.+!-]+\.tar\.gz$")]
    sha256: Sha256
    size: Annotated[int, Field(ge=1)]


class GitRef(Frozen):
    """The commit whose files are the archive."""

    repository: Link
    commit: Annotated[str, Field(pattern=COMMIT)]


class Source(SourceFile):
    """The sources of one version: an archive on the package index, or the files of a commit.

    With ``git`` the archive is a plain ``.tar`` that is made of them here, the same everywhere.
    """

    file: Annotated[str, Field(pattern=r"^[\w.+!-]+\.tar(\.gz)?$")]
    git: GitRef | None = None


class External(SourceFile):
    """Local sources of an external project, in place of what the build would fetch.

    ``path`` is their folder in the archive of another package (FlashInfer's carries CUTLASS).
    Each of ``variables`` is set to that folder, as a CMake definition and in the environment; a
    value may hold a folder below it: ``{ CUTLASS_INCLUDE_DIR = "include" }``.
    """

    package: PackageName
    path: RelativePath
    variables: Mapping[Variable, str] = Field(min_length=1)


class Requirement(LockedWheel):
    """One locked wheel that the build needs.

    A ``tool`` runs on the machine that compiles (nvcc, cmake, ninja), ``target`` is for the
    machine that is compiled for (headers and libraries to link against). A build takes those that
    fit the machine in question, so both processors' wheels may stand here.
    """

    index: str = DEFAULT_INDEX
    role: Literal["tool", "target"] = "tool"

    def fits(self, machine: str) -> bool:
        """Say whether the wheel is for this processor (``aarch64``, ``x86_64``)."""
        return self.file.endswith(("-any.whl", f"_{machine}.whl"))


class Toolchain(Frozen):
    """What compiles: CUDA's version (empty where no GPU code is made), Debian's packages.

    ``native`` are packages for compiling on the target's own processor, ``cross`` for compiling
    for it on another one.
    """

    cuda: Annotated[str, Field(pattern=r"^(\d{1,2}\.\d{1,2})?$")] = ""
    native: tuple[str, ...] = ()
    cross: tuple[str, ...] = ()
    requirements: tuple[Requirement, ...] = ()


class Build(Frozen):
    """How the build system is called.

    ``cmake`` drives CMake and ninja directly and installs each target's component. ``command``
    runs ``command`` in the unpacked sources; it makes ``$TARGETS`` with ``$CC``, ``$CXX`` and nvcc,
    by ``$LAUNCHER`` where ccache is to keep an object, and leaves the files at their paths in the
    wheel below ``$OUTPUT``, or a whole wheel there. ``exclude`` are globs of sources that are
    emptied, and ``undefine`` the macros by which others would use them.
    """

    system: Literal["cmake", "command"] = "cmake"
    command: tuple[str, ...] = ()
    definitions: Mapping[Variable, str] = Field(default_factory=dict)
    environment: Mapping[Variable, str] = Field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    undefine: tuple[Variable, ...] = ()


class Cost(Frozen):
    """What compiling takes: CPU seconds, the longest job's seconds and memory; measured or not.

    ``where`` says on what it was seen; figures that were not measured say ``estimated``.
    """

    cpu_seconds: Annotated[float, Field(gt=0)]
    longest_seconds: Annotated[float, Field(ge=0)] = 0
    memory_gb: Annotated[float, Field(gt=0)]
    objects: Annotated[int, Field(ge=1)]
    where: str


class Target(Frozen):
    """One target of the build system and the files of the wheel that it makes.

    ``sources`` are globs (``*`` matches slashes) of all files that it is compiled from, headers
    too: a patch that touches one of them asks for this target. ``instructions`` must be found in
    the machine code, per file: what the kernels exist for (``QMMA``). Files that the published
    wheel does not have are ``new``.
    """

    target: str = ""  # the build system's name, where it is another than the key
    files: Annotated[tuple[RelativePath, ...], Field(min_length=1)]
    sources: Annotated[tuple[str, ...], Field(min_length=1)]
    architectures: tuple[Architecture, ...] = ()
    instructions: tuple[str, ...] = ()
    new: bool = False
    cost: Cost


class Recipe(Frozen):
    """How one package is compiled for one GPU.

    ``tag`` is what the local version says of the architecture (``121a``), ``sources`` the versions
    that this recipe knows. ``whole`` is what a build of the whole package takes, for a cell that
    says ``source``; without it only targets can be rebuilt.
    """

    schema_version: Literal[1] = Field(alias="schema")
    package: PackageName
    description: str = ""
    gpu: Annotated[str, Field(pattern=r"^sm_\d{2,3}$")] | None = None
    tag: Annotated[str, Field(pattern=r"^[a-z0-9]+$")] = ""
    sources: Annotated[dict[str, Source], Field(min_length=1)]
    toolchain: Toolchain = Toolchain()
    build: Build = Build()
    external: dict[TargetName, External] = Field(default_factory=dict)
    targets: dict[TargetName, Target] = Field(default_factory=dict)
    whole: Cost | None = None
    cache_gb: Annotated[float, Field(gt=0)] = 5.0  # ccache's size limit

    @property
    def name(self) -> str:
        """Return the package's canonical name."""
        return str(canonicalize_name(self.package))

    def inputs(self, version: str, targets: tuple[str, ...]) -> dict[str, Any]:
        """Return what the bytes of these targets depend on, as JSON values.

        Other versions, other targets, times, descriptions and the cache's size are left out.
        """
        source = self.sources[version].model_dump(mode="json", include={"sha256"})
        return {
            "package": self.name, "gpu": self.gpu, "source": source,
            "toolchain": self.toolchain.model_dump(mode="json"),
            "build": self.build.model_dump(mode="json"),
            "external": {name: each.model_dump(mode="json")
                         for name, each in sorted(self.external.items())},
            "targets": {name: self.targets[name].model_dump(
                mode="json", include={"target", "files", "architectures"})
                for name in sorted(targets)},
        }

    def cmake_name(self, target: str) -> str:
        """Return the build system's name of a target."""
        return self.targets[target].target or target


def load_recipe(path: Path) -> Recipe:
    """Read and check one file; raises ConfigError with every error in it."""
    raw = read_toml(path, what="recipe of a compile",
                    next_step=f"write it, or take the published wheel; see {FOLDER}/README.md")
    problems = [*shape_problems(Recipe, raw), *_wrong(raw, path)]
    if problems:
        raise ConfigError(f"{FOLDER}/{path.name}", problems)
    return Recipe.model_validate(raw)


def load_recipes(root: Path) -> dict[str, Recipe]:
    """Return every recipe of the checkout by package."""
    found = (load_recipe(path) for path in sorted((root / FOLDER).glob("*.toml")))
    return {recipe.name: recipe for recipe in found}


def _wrong(raw: dict[str, Any], path: Path) -> list[Problem]:
    """Return what no shape can say: the name, files made twice, a system without its command."""
    problems = []
    package = raw.get("package")
    if isinstance(package, str) and canonicalize_name(package) != path.stem:
        problems.append(Problem("package", f'"{package}" is not the package of {path.name}',
                                "name the file after its package"))
    targets = raw.get("targets")
    makers: dict[str, str] = {}
    for name, target in targets.items() if isinstance(targets, dict) else ():
        files = target.get("files") if isinstance(target, dict) else None
        for file in filter(_is_text, files if isinstance(files, list) else ()):
            if file in makers:
                problems.append(Problem(f"targets.{name}.files",
                                        f'"{file}" is also made by targets.{makers[file]}',
                                        "leave it to one of the two"))
            makers.setdefault(file, name)
    build = raw.get("build")
    if isinstance(build, dict) and (build.get("system") == "command") != bool(build.get("command")):
        problems.append(Problem("build.command", "belongs to system = \"command\", and only to it",
                                "add the one, or drop the other"))
    if not targets and not raw.get("whole"):
        problems.append(Problem("targets", "nothing says what is compiled", "name at least one "
                                "target, or what the whole package takes ([whole])"))
    versions = raw.get("sources")
    problems += [Problem(f'sources."{version}"', "is not a version", 'write it like "0.20.2"')
                 for version in (versions if isinstance(versions, dict) else ())
                 if not re.fullmatch(r"\d+(\.\d+)*([a-z0-9.]*)", str(version))]
    problems += [Problem(f'sources."{version}".file', "does not fit where it comes from",
                         "name it .tar where it is made of a commit (`git`), else .tar.gz")
                 for version, source in _tables(versions)
                 if str(source.get("file", "")).endswith(".tar") != ("git" in source)]
    return problems


def _tables(found: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tables of a table by name."""
    if isinstance(found, dict):
        yield from ((name, each) for name, each in found.items() if isinstance(each, dict))


def _is_text(value: object) -> bool:
    return isinstance(value, str)
