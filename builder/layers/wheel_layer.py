"""One wheel into two normalised tars: its files with bytecode, and its ``.dist-info``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from builder.layers.bytecode import BytecodeCompiler
from builder.layers.distinfo import is_metadata, metadata_files
from builder.layers.wheel_contents import Layout, WheelContents, open_wheel, refused
from builder.tarball import File, Step, Tar, content, file_slice, write_tar


@dataclass(frozen=True)
class PackedWheel:
    """The two tars of one wheel."""

    files: Tar
    metadata: Tar


def pack_wheel(wheel: Path, layout: Layout, compiler: BytecodeCompiler, folder: Path, step: Step
               ) -> PackedWheel:
    """Write the wheel's tars into ``folder``, which must be empty; ``step`` counts bytes.

    Raises UsageError naming the wheel, and the member, for what must not enter an image.
    """
    with open_wheel(wheel, layout) as contents:
        bytecode = _compile(contents, layout, compiler, folder / "bytecode", step)
        files = [item.file for item in contents.files
                 if not is_metadata(item.file.path, contents, layout)]
        try:
            return PackedWheel(
                write_tar(folder / "files.tar", [*files, *bytecode.values()], step),
                write_tar(folder / "metadata.tar", metadata_files(contents, bytecode, layout)))
        except ValueError as error:
            raise refused(wheel.name, "", f"has a member that is not right: {error}") from error


def _compile(contents: WheelContents, layout: Layout, compiler: BytecodeCompiler, spool: Path,
             step: Step) -> dict[str, File]:
    """Compile the wheel's modules, sorted, into one file on disk; return slices of it by path.

    Bytecode of a module that does not compile is absent, as it is after an installer.
    """
    modules = [item.file for item in contents.files if item.library
               and item.file.path.endswith(".py")
               and not is_metadata(item.file.path, contents, layout)]
    if not modules:
        return {}
    compiled = compiler.compile([(f"/{file.path}", partial(content, file))
                                 for file in modules])
    return _spooled(zip((cached_path(file.path, layout) for file in modules), compiled,
                        strict=True), spool, step)


def _spooled(compiled: Iterable[tuple[str, bytes]], spool: Path, step: Step) -> dict[str, File]:
    files, offset = {}, 0
    with spool.open("wb") as stream:
        for path, data in compiled:
            if data:
                files[path] = File(path, len(data), file_slice(spool, offset, len(data)))
                stream.write(data)
                offset += len(data)
            step(0)
    return files


def cached_path(path: str, layout: Layout) -> str:
    """Return where Python looks for a module's bytecode (PEP 3147)."""
    folder, _, name = path.rpartition("/")
    tag = f"cpython-{layout.minor.replace('.', '')}"
    return f"{folder}/__pycache__/{name.removesuffix('.py')}.{tag}.pyc"
