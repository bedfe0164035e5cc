"""Bytecode by the base's own Python: one fresh process a wheel, fed through pipes.

Which bytes ``marshal`` writes depends on the exact release of Python and on what the process
did before, so each wheel has a process of its own and its modules come in one fixed order. They
do not depend on the processor: a base of this machine's own kind, with the same Python, serves
for an emulated one.
"""

from __future__ import annotations

import struct
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol

from builder.engine.client import Engine
from builder.engine.container import RunSpec
from builder.errors import EngineError, command
from builder.layers.wheel_contents import minor_of
from builder.limits import BYTECODE_BYTES

# The shell reads one line a wheel, byte by byte, and leaves the rest to the process it starts.
_LOOP = ('while read -r go; do env -i LC_ALL=C.UTF-8 PYTHONHASHSEED=0 "$0" -s -S -W ignore'
         ' -c "$1" || exit 1; done')
_WORKER = Path(__file__).with_name("bytecode_worker.py")
_END_TIMEOUT_S = 5.0

Module = tuple[str, Callable[[], bytes]]  # its path in the image, and how to read its source
Starter = Callable[[Sequence[str]], AbstractContextManager["subprocess.Popen[bytes]"]]


class BytecodeCompiler(Protocol):
    """Compiles the modules of one wheel; several threads may do so at once."""

    @property
    def python(self) -> str:
        """Return the full version, ``3.11.2``, that the bytecode is for."""

    def compile(self, modules: Sequence[Module]) -> Iterator[bytes]:
        """Yield each module's bytecode in the given order, empty where it does not compile."""


class PipedCompiler:
    """A compiler behind a shell: on this machine, or in a container."""

    def __init__(self, python: str, start: Starter, interpreter: str) -> None:
        """Keep what starts a shell; that is done when first needed, once a thread."""
        self._python, self._start = python, start
        self._command = ("sh", "-c", _LOOP, interpreter, _WORKER.read_text(encoding="utf-8"))
        self._idle: SimpleQueue[_Session] = SimpleQueue()
        self._opened = ExitStack()
        self._opening = threading.Lock()

    @property
    def python(self) -> str:
        """Return the full version that the bytecode is for."""
        return self._python

    def compile(self, modules: Sequence[Module]) -> Iterator[bytes]:
        """Yield bytecode, module by module; raises EngineError when the process is not right."""
        session = self._session()
        yield from session.compile(modules)
        self._idle.put(session)  # one that failed half-way is never used again

    def close(self) -> None:
        """End every process."""
        self._opened.close()

    def _session(self) -> _Session:
        try:
            return self._idle.get_nowait()
        except Empty:
            with self._opening:
                child = self._opened.enter_context(self._start(self._command))
                self._opened.callback(_let_go, child)
                return _Session(child, self._python)


@contextmanager
def compiler_in(engine: Engine, image: str, platform: str, python: str
                ) -> Iterator[PipedCompiler]:
    """Give a compiler that runs in containers of ``image``, which must be on the engine.

    They have no network and are gone at the block's end.
    """
    @contextmanager
    def start(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        spec = RunSpec(image, tuple(command[1:]), platform=platform, entrypoint=command[0],
                       network="none", interactive=True)
        with engine.create(spec) as container, container.pipes() as child:
            yield child
    interpreter = f"/usr/bin/python{minor_of(python)}"  # where Debian and Ubuntu have it
    with closing(PipedCompiler(python, start, interpreter)) as compiler:
        yield compiler


class _Session:
    """One running shell; used by one thread at a time."""

    def __init__(self, child: subprocess.Popen[bytes], python: str) -> None:
        if child.stdin is None or child.stdout is None:
            raise ValueError("the shell must be started with pipes")
        self._child, self._stdin, self._stdout = child, child.stdin, child.stdout
        self._python = python

    def compile(self, modules: Sequence[Module]) -> Iterator[bytes]:
        """Feed the modules from a second thread while their bytecode is read here."""
        with ThreadPoolExecutor(1) as pool:
            fed = pool.submit(self._feed, modules)
            try:
                self._greet()
                for _ in modules:
                    yield self._frame()
                fed.result()
            except EOFError as error:
                self._abandon()
                reason = fed.exception()
                if reason and not isinstance(reason, OSError):
                    raise reason from None
                raise EngineError("the process that compiles bytecode ended early",
                                  next_step="run the same command again") from error
            finally:
                if not fed.done():
                    self._abandon()  # or the feeder would wait for ever on a full pipe

    def _abandon(self) -> None:
        """End the shell, and by closing its output also the process that it had started."""
        self._child.kill()
        self._stdout.close()

    def _feed(self, modules: Sequence[Module]) -> None:
        try:
            self._stdin.write(b"go\n" + struct.pack(">I", len(modules)))
            for path, read in modules:
                name, source = path.encode(), read()
                self._stdin.write(struct.pack(">II", len(name), len(source)) + name + source)
            self._stdin.flush()
        except BaseException:
            with suppress(OSError):
                self._stdin.close()  # the process ends upon it, or the reader would wait for ever
            raise

    def _greet(self) -> None:
        expected = f"{self._python} cpython-{minor_of(self._python).replace('.', '')}"
        actual = self._frame().decode("utf-8", "replace")
        if actual != expected:
            raise EngineError(f"bytecode must be made by Python {expected}, this is {actual}",
                              next_step=f"make the base again: {command('base')}")

    def _frame(self) -> bytes:
        (size,) = struct.unpack(">I", self._read(4))
        if size > BYTECODE_BYTES:
            self._abandon()
            raise EngineError(f"the process that compiles bytecode announced {size} bytes for one "
                              "module", next_step=f"make the base again: {command('base')}")
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = self._stdout.read(size)
        if len(data) != size:
            raise EOFError
        return data


def _let_go(child: subprocess.Popen[bytes]) -> None:
    """Close the shell's input, upon which it ends by itself."""
    try:
        if child.stdin is not None:
            child.stdin.close()
        child.wait(timeout=_END_TIMEOUT_S)
    except (BrokenPipeError, subprocess.TimeoutExpired):
        return  # the block that started it ends it
