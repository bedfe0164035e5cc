"""A finding of the gate as a value: one shape for the terminal, JSON, SARIF and the smoke test."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from builder.text import unbroken


class Severity(StrEnum):
    """``ERROR`` stops a build, ``WARNING`` needs a look, ``NOTE`` explains. The worst is first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class FindingCode(StrEnum):
    """Everything that the gate can find, and the damage that its readers report.

    The values are a public interface (``gate --explain``, SARIF rules): never rename one.
    ``gate/explain.toml`` explains each of them.
    """

    # versions
    GEMMA4_UNSUPPORTED = "gemma4-unsupported"
    GEMMA4_CONFIG = "gemma4-config"
    TRANSFORMERS_TOO_NEW = "transformers-too-new"
    NO_TRANSFORMERS5 = "no-transformers5"
    CPU_TORCH = "cpu-torch"
    MIXED_FLASHINFER = "mixed-flashinfer"
    MIXED_CUDA = "mixed-cuda"
    TWO_CUDA_MAJORS = "two-cuda-majors"
    UNMET = "unmet"
    NOT_LEFT_OUT = "not-left-out"
    # libraries and symbols
    UNDEFINED_SYMBOL = "undefined-symbol"
    MISSING_LIBRARY = "missing-library"
    SYMBOL_VERSION = "symbol-version"
    WRONG_EXTENSION = "wrong-extension"
    BASE_UNKNOWN = "base-unknown"
    # GPU code and the tools that compile it
    NO_GPU_CODE = "no-gpu-code"
    ARCH_EXACT_ONLY = "arch-exact-only"
    ARCH_EXACT_PART = "arch-exact-part"
    EMPTY_KERNELS = "empty-kernels"
    NO_INSTRUCTION = "no-instruction"
    BUILD_PATH = "build-path"
    COMPILER_TOO_OLD = "compiler-too-old"
    KERNEL_SOURCES_MISSING = "kernel-sources-missing"
    TOOLCHAIN_MISSING = "toolchain-missing"
    # metadata
    NOT_AS_LOCKED = "not-as-locked"
    NOT_LOCKED = "not-locked"
    UNMET_REQUIREMENT = "unmet-requirement"
    OVERRIDDEN = "overridden"
    UNBOUNDED = "unbounded"
    NOT_A_CLOSURE = "not-a-closure"
    WRONG_TAGS = "wrong-tags"
    WRONG_GLIBC_TAG = "wrong-glibc-tag"
    # wheels as archives
    FILE_COLLISION = "file-collision"
    WHEEL_UNREADABLE = "wheel-unreadable"
    MEMBER_UNREADABLE = "member-unreadable"
    ZIP_BOMB = "zip-bomb"
    OVERLAPPING_MEMBERS = "overlapping-members"
    DUPLICATE_MEMBER = "duplicate-member"
    UNSAFE_PATH = "unsafe-path"
    SET_ID = "set-id"
    NOT_A_FILE = "not-a-file"
    METADATA_MISSING = "metadata-missing"
    METADATA_DAMAGED = "metadata-damaged"
    RECORD_DAMAGED = "record-damaged"
    RECORD_UNLISTED = "record-unlisted"
    RECORD_DIFFERS = "record-differs"
    RECORD_ABSENT = "record-absent"
    PTH_RUNS_CODE = "pth-runs-code"
    # files of a wheel or an image
    FILE_CHANGED = "file-changed"
    FILE_LOST = "file-lost"
    FILE_BROKEN = "file-broken"
    ELF_DAMAGED = "elf-damaged"
    FATBIN_DAMAGED = "fatbin-damaged"


def counted(count: int, noun: str) -> str:
    """Return ``1 wheel`` or ``2 wheels``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@dataclass(frozen=True)
class Finding:
    """One thing that the gate found.

    ``what`` is a sentence for people, ``next_step`` says what to do about it. ``wheel`` is a file
    name, ``file`` one of its members; ``affected`` are the extensions that cannot be imported
    because of it. ``expected`` and ``found`` are the two values that differ; each is empty where
    it would say nothing.
    """

    code: FindingCode
    what: str
    next_step: str
    severity: Severity = Severity.ERROR
    wheel: str = ""
    file: str = ""
    expected: str = ""
    found: str = ""
    affected: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Keep the sentences in one line each: a file of a wheel may be called by two lines."""
        for name in ("what", "next_step"):
            object.__setattr__(self, name, unbroken(getattr(self, name)))

    def __str__(self) -> str:
        """Return one line: the code, the sentence, what to do."""
        return f"{self.code}: {self.what}; {self.next_step}"
