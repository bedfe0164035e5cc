"""Arguments, the visible list of stages, and the only place that turns an error into an exit code.

The order of ``COMMANDS`` is the order in which data flows:
load -> expand -> resolve -> fetch -> gate -> layer -> build -> smoke -> record -> publish.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from builder import console
from builder.config_file import suggestion
from builder.crash_report import as_error
from builder.errors import INTERRUPTED_EXIT_CODE, SparkyardError, UsageError
from builder.files import CALLER

COMMANDS = (
    "doctor",
    "engine",
    "base",
    "plan",
    "lock",
    "fetch",
    "gate",
    "patch",
    "wheels",
    "build",
    "smoke",
    "bisect",
    "pin",
    "bench",
    "report",
    "site",
    "push",
    "sync",
    "promote",
    "rollback",
    "verify",
    "diff",
    "sbom",
    "tags",
    "nightly",
    "diagnose",
    "recipe",
    "serve",
    "status",
    "logs",
    "stop",
    "switch",
    "cache",
)


MATRIX = "--matrix"


class _Parser(argparse.ArgumentParser):
    """A parser that refuses a word too many itself: with its own usage, and not the program's."""

    def print_help(self, file: Any = None) -> None:
        """Print the help as any result: a standard output that does not take it is an error."""
        if file is not None:
            super().print_help(file)
        else:
            console.out(self.format_help())

    def parse_known_args(self, args: Any = None, namespace: Any = None
                         ) -> tuple[Any, list[str]]:
        found, extra = super().parse_known_args(args, namespace)
        if extra:
            self.error(f"unrecognized arguments: {' '.join(extra)}")
        return found, extra


def parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of the sub-commands ``names``; each command module adds its own."""
    top = _Parser(
        prog="sparkyard", description="Tested vLLM images for the NVIDIA DGX Spark.",
        epilog="Exit codes: 0 good, 1 negative verdict, 2 usage or configuration, 3 lock, "
               "4 network, 5 engine or disk, 6 patch, 7 internal error, 130 interrupted. In a "
               "checkout, `./nox -s COMMAND -- OPTIONS` runs the same commands.")
    top.add_argument(MATRIX, type=Path, default=Path("matrix.toml"), metavar="FILE",
                     help="the version matrix (default: ./matrix.toml)")
    top.add_argument("-v", "--verbose", action="store_true", help="show every command that is run")
    stages = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in names:
        importlib.import_module(f"builder.commands.{name}").add_parser(stages)
    return top


def run(arguments: Sequence[str]) -> int:
    """Run one command line; return its exit code. No traceback reaches a user."""
    try:
        return _execute(arguments)
    except SparkyardError as error:
        return _end(error)
    except KeyboardInterrupt:
        console.warn("interrupted; run the same command again to go on")
        return INTERRUPTED_EXIT_CODE
    except console.ReaderGoneError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `| head` is no error
        return 0
    except Exception as fault:  # noqa: BLE001 - the one place where anything may come
        return _end(as_error(fault, arguments))


def _execute(arguments: Sequence[str]) -> int:
    refuse_empty(arguments)
    # Only the module that is asked for is imported: the Docker client alone costs half a second.
    name = command_in(arguments)
    if name and name not in COMMANDS:
        known = suggestion(name, COMMANDS)
        raise UsageError(f'there is no command "{name}"', where="command line",
                         next_step=known.replace("known here:", "one of"))
    options = parser([name] if name else COMMANDS).parse_args(arguments)
    os.environ.pop(CALLER, None)  # the paths are read; a command's own programs start from here
    console.set_verbose(options.verbose)
    code: int = options.execute(options)
    console.flush()
    return code


def command_in(arguments: Sequence[str]) -> str:
    """Return the word that stands where the command does; empty where none does.

    That is also so where help or a wrong option of the program itself stands before it.
    """
    words = iter(arguments)
    for word in words:
        if word == MATRIX:
            next(words, "")
        elif not word.startswith("-"):
            return word
        elif not word.startswith(f"{MATRIX}=") and word not in ("-v", "--verbose"):
            return ""
    return ""


def refuse_empty(arguments: Sequence[str]) -> None:
    """Raise UsageError for an empty argument: nobody means one, but a script's variable may be.

    An option with it would be taken as if it were not there, or a path as this folder.
    """
    for before, word in pairwise(["", *arguments]):
        option, equals, value = (word.partition("=") if word.startswith("--")
                                 else (before, "=", word))
        if equals and not value.strip():
            raise UsageError("this argument is empty",
                             where=option if option.startswith("-") else "command line",
                             next_step="give a value, or leave the option out; is a variable of "
                             "your script empty?")


def _end(error: SparkyardError) -> int:
    console.show_error(error)
    return error.exit_code
