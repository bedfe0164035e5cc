"""What is inside a wheel or a base, as values: read once, cached by digest, judged by the gate."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from builder.locking.findings import FindingCode


class Form(StrEnum):
    """``SASS`` is machine code for one architecture, ``PTX`` is compiled by the driver."""

    SASS = "sass"
    PTX = "ptx"


@dataclass(frozen=True)
class Code:
    """GPU code of one architecture in one file: ``arch`` is 121, ``variant`` empty, ``a`` or ``f``.

    ``count`` entries of ``size`` bytes in all, as they are stored (mostly compressed).
    """

    form: Form
    arch: int
    variant: str
    count: int
    size: int

    @property
    def name(self) -> str:
        """Return ``sm_121a`` or ``compute_120f``."""
        return f"{'sm' if self.form is Form.SASS else 'compute'}_{self.arch}{self.variant}"


@dataclass(frozen=True)
class Region:
    """What one source file was compiled to: ``codes`` (``sm_90a``), in ``count`` regions alike.

    Of a region, a GPU takes the code that fits it best; without one, its kernels are missing.
    """

    codes: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class Stub:
    """GPU code of which every kernel only prints ``message`` and stops.

    ``code`` is what it was compiled for, ``kernel`` the mangled name of the first of ``kernels``.
    """

    code: str
    message: str
    kernel: str
    kernels: int


class Symbol(NamedTuple):
    """A dynamic symbol: ``version`` is ``GLIBC_2.17`` or empty; ``weak`` ones may be missing.

    A tuple, because a closure has hundreds of thousands of them.
    """

    name: str
    version: str = ""
    weak: bool = False


@dataclass(frozen=True)
class Damage:
    """Something in a wheel that cannot be read or must not be there; ``detail`` says what."""

    code: FindingCode
    file: str
    detail: str


@dataclass(frozen=True)
class ElfFacts:
    """One ELF file: ``path`` as installed, relative to site-packages (or absolute in a base).

    ``machine`` is ``aarch64`` or ``x86_64``; ``kind`` is ``dyn`` (library or position-independent
    program), ``exec``, ``rel`` or ``debug`` (for a linker or a debugger: nothing loads these);
    ``interpreter`` is set for programs; ``rpath`` and ``runpath`` keep ``$ORIGIN``.
    ``needed_versions`` maps a needed library to the symbol versions asked of it (weak ones, which
    may be missing, left out), ``defined_versions`` are those that it offers itself, its own name
    (the base version) included. Symbols are sorted, without local and hidden ones. ``cuda`` is
    what the driver may load, ``cuda_to_link`` what only a device linker could use (dead weight);
    both are empty for files without GPU code. ``regions`` has the different ones among those that
    the driver may load, ``stubs`` the code that refuses to run. ``damage`` is what could not be
    read.
    """

    path: str
    machine: str
    soname: str = ""
    interpreter: str = ""
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    needed_versions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    defined: tuple[Symbol, ...] = ()
    undefined: tuple[Symbol, ...] = ()
    cuda: tuple[Code, ...] = ()
    size: int = 0
    kind: str = "dyn"
    cuda_to_link: tuple[Code, ...] = ()
    defined_versions: tuple[str, ...] = ()
    damage: tuple[Damage, ...] = ()
    regions: tuple[Region, ...] = ()
    stubs: tuple[Stub, ...] = ()


@dataclass(frozen=True)
class WheelFacts:
    """All that the gate knows of one wheel: its ELF files, loose cubins and archive members.

    ``members`` maps each installed path (relative to site-packages) to the ``sha256`` of its bytes
    as RECORD spells it (base64 without padding); ``metadata`` is the text of METADATA; ``tags``
    those of its WHEEL file; ``damage`` has that of its ELF files too. ``unpacked`` is in bytes.
    ``targets`` are the architectures (``121a``) that compilers of GPU code know, by path.
    """

    file: str
    sha256: str
    name: str
    version: str
    elves: tuple[ElfFacts, ...] = ()
    cubins: tuple[tuple[str, Code], ...] = ()
    members: tuple[tuple[str, str], ...] = ()
    metadata: str = ""
    tags: tuple[str, ...] = ()
    damage: tuple[Damage, ...] = ()
    unpacked: int = 0
    targets: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class BaseFacts:
    """What a base brings: its loader's libraries, its Python, its tools.

    ``libraries`` are the shared objects that the loader finds without help, ``packages`` maps
    Debian package to version, ``owners`` a library's path to its package, ``tools`` the programs
    and headers of the run-time toolchain that are there.
    """

    name: str
    digest: str
    platform: str
    python: str
    glibc: str
    libraries: tuple[ElfFacts, ...] = ()
    packages: tuple[tuple[str, str], ...] = ()
    owners: tuple[tuple[str, str], ...] = ()
    tools: tuple[str, ...] = ()
