"""Recipe files of sparkrun (version 2) and eugr (version 1), read into one shape.

The server's command is rendered with the file's own defaults, as those launchers do it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from builder.errors import ConfigError, Problem, UsageError
from builder.limits import read_file
from builder.recipes.exports.launchers import DEFAULTS
from builder.text import one_line

LIMIT = 2**20
LONGEST = 2**17  # characters of a command: Linux takes no longer word
SHOWN = 300  # characters of what YAML says
LARGEST = 2**63  # of a whole number; JSON and TOML hold no larger one
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
ROUNDS = 5  # a default may name another
SERVE = ("vllm", "serve")
MODULE = "vllm.entrypoints.openai.api_server"
RUNTIMES = ("vllm", "vllm-distributed", "vllm-ray", "eugr-vllm", "eugr-vllm-ray")
SHELL = re.compile(r"[;&|<>`]|\$[({A-Za-z_]")
KNOWN = {"recipe_version", "sparkrun_version", "min_sparkrun_version", "name", "description",
         "model", "model_revision", "runtime", "container", "defaults", "env", "command",
         "metadata", "min_nodes", "max_nodes", "solo_only", "cluster_only"}
# Flags that are switches when they are given as a default.
FLAGS = {key: flag for flag, key in DEFAULTS.items()}

# What PyYAML raises for a file that is none, and for a value that is not what its tag says.
UNREADABLE = (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError, TypeError,
              OverflowError)


@dataclass(frozen=True)
class Foreign:
    """A foreign recipe: ``words`` are the arguments after ``vllm serve MODEL``.

    ``other`` are its keys that neither say what is served nor with which arguments.
    """

    name: str
    version: str
    description: str
    model: str
    revision: str
    container: str
    words: tuple[str, ...]
    environment: Mapping[str, str]
    metadata: Mapping[str, Any]
    nodes: int
    other: tuple[str, ...]


def read_foreign(path: Path) -> Foreign:
    """Read one file; raises UsageError for none, ConfigError with what it lacks."""
    raw = _yaml(path)
    problems = list(_problems(raw))
    if problems:
        raise ConfigError(path.name, problems)
    version = str(raw.get("recipe_version") or raw.get("sparkrun_version") or "2")
    defaults = dict(raw.get("defaults") or {})
    model = str(raw.get("model") or "")
    command, environment = _command(raw, {**defaults, "model": model}, version, path)
    served, words = _served(command, path)
    metadata = raw.get("metadata") or {}
    return Foreign(
        name=str(raw.get("name") or path.stem), version=version,
        description=str(raw.get("description") or metadata.get("description") or ""),
        model=model or served, revision=str(raw.get("model_revision") or ""),
        container=str(raw.get("container") or ""), words=words,
        environment={**{str(name): _variable(value, version)
                        for name, value in (raw.get("env") or {}).items()}, **environment},
        metadata=metadata, nodes=_nodes(raw, defaults),
        other=tuple(sorted(str(key) for key, value in raw.items()
                           if key not in KNOWN and value not in (None, [], {}, "", False))))


class _Plain(yaml.SafeLoader):
    """YAML without aliases: a dozen lines of them stand for more text than any memory holds.

    Nor does it read ``1:30`` as a number to the base of 60, or whole numbers beyond 64 bits.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.composer.ComposerError(
                None, None, "aliases (*name) are not supported: write the value itself",
                self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        return super().compose_node(parent, index)

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        """Say what a value is: one with a colon is no number."""
        tag = str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
        return self.DEFAULT_SCALAR_TAG if tag in NUMBERS and ":" in value else tag

    def whole(self, node: yaml.ScalarNode) -> int:
        """Read a whole number within its bounds."""
        number = 0 if ":" in node.value else int(self.construct_yaml_int(node))
        if ":" in node.value or not -LARGEST <= number < LARGEST:
            raise _no_number(node)
        return number

    def fraction(self, node: yaml.ScalarNode) -> float:
        """Read a number with a fraction."""
        if ":" in node.value:
            raise _no_number(node)
        return float(self.construct_yaml_float(node))


def _no_number(node: yaml.ScalarNode) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(
        None, None, f"not a number of 64 bits: {one_line(node.value, 40)}", node.start_mark)


_Plain.add_constructor(NUMBERS[0], _Plain.whole)
_Plain.add_constructor(NUMBERS[1], _Plain.fraction)


def _yaml(path: Path) -> dict[str, Any]:
    try:
        raw = _Plain(read_file(path, LIMIT, "recipe")).get_single_data()
    except UNREADABLE as error:
        raise ConfigError(path.name, [Problem(path.name, f"not readable as YAML: {_why(error)}",
                                              "correct it there")]) from error
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path),
                         next_step="name a recipe file of sparkrun or eugr") from error
    if not isinstance(raw, dict):
        raise ConfigError(path.name, [Problem(path.name, "it is not a mapping of keys",
                                              "name a recipe file of sparkrun or eugr")])
    return raw


def _why(error: Exception) -> str:
    """Say what YAML found; an exception of Python's own says nothing to a reader of the file."""
    if isinstance(error, yaml.YAMLError):
        return one_line(str(error), SHOWN)
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "a value is not of the type that its tag names"


def _problems(raw: Mapping[str, Any]) -> Iterator[Problem]:
    version = str(raw.get("recipe_version") or raw.get("sparkrun_version") or "2")
    if version not in ("1", "2"):
        yield Problem("recipe_version", f"{version} is not known",
                      "1 (eugr) and 2 (sparkrun) can be read")
    runtime = raw.get("runtime") or "vllm"
    if runtime not in RUNTIMES:
        yield Problem("runtime", f"{runtime} is not vLLM", "our images have vLLM only")
    for key in ("defaults", "env", "metadata"):
        names = raw.get(key) or {}
        if not isinstance(names, dict):
            yield Problem(key, "it is not a mapping of names to values",
                          "write one name: value a line below it")
        elif key != "metadata":  # YAML reads NO, on and 1 as values of other kinds
            yield from (Problem(f"{key}.{name}", f"YAML reads its name as {type(name).__name__}",
                                "put the name into quotes")
                        for name in names if not isinstance(name, str))
    if not (raw.get("model") or raw.get("command")):
        yield Problem("model", "there is neither a model nor a command",
                      "add model: OWNER/NAME, or the whole command")
    if not isinstance(raw.get("command") or "", str):
        yield Problem("command", "it is not a text", "write the command as one text")


def _command(raw: Mapping[str, Any], values: Mapping[str, Any], version: str, path: Path
             ) -> tuple[list[str], dict[str, str]]:
    """Return the command's words and the variables that stand before it."""
    template = str(raw.get("command") or "")
    if not template:
        return [*SERVE, str(values["model"]), *_from_defaults(values)], {}
    try:
        text = re.sub(r"\\[ \t]*\n", " ", _render(template, values, doubled="{{" in template
                                                 or version == "1"))
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise _unclear(f"its command cannot be read: {error}", path) from error
    environment = {}
    while words and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=.*", words[0]):
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    return words, environment


def _render(template: str, values: Mapping[str, Any], *, doubled: bool) -> str:
    """Fill ``{name}``; a brace that is doubled, or is around no known name, stays a brace.

    Raises ValueError for a command that is too long, before it is put together.
    """
    text = template.replace("{{", "\x00").replace("}}", "\x01") if doubled else template
    for _ in range(ROUNDS):
        filled = _filled(text, values)
        if filled == text:
            break
        text = filled
    return text.replace("\x00", "{").replace("\x01", "}")


def _filled(text: str, values: Mapping[str, Any]) -> str:
    left = LONGEST - len(text)

    def fill(found: re.Match[str]) -> str:
        nonlocal left
        piece = _scalar(values[found[1]]) if found[1] in values else found[0]
        left -= len(piece) - len(found[0])
        _refuse_long(left)
        return piece

    _refuse_long(left)
    return PLACEHOLDER.sub(fill, text)


def _refuse_long(left: int) -> None:
    if left < 0:
        raise ValueError(f"it is longer than {LONGEST:,} characters")


def _variable(value: Any, version: str) -> str:
    """Return a variable's value; eugr's launcher puts it into a shell's double quotes."""
    return re.sub(r'\\([\\"$`])', r"\1", str(value)) if version == "1" else str(value)


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _from_defaults(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield flags of a recipe without a command, which sparkrun makes of its defaults."""
    for key, value in values.items():
        flag = FLAGS.get(key) or f"--{key.replace('_', '-')}"
        if key == "model" or value is False or value is None:
            continue
        yield from (flag,) if value is True else (flag, str(value))


def _served(words: list[str], path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the model that the command names, and its arguments without it."""
    if any(SHELL.search(word) and not word.lstrip().startswith(("{", "[")) for word in words):
        raise _unclear("its command uses the shell (variables, pipes or several commands)", path)
    if tuple(words[:2]) == SERVE and len(words) > 2:
        if not words[2].startswith("-"):
            return words[2], tuple(words[3:])
        rest = words[2:]
    elif words[1:3] == ["-m", MODULE]:
        rest = words[3:]
    else:
        raise _unclear("its command does not start vLLM's server", path)
    if "--model" not in rest[:-1]:
        raise _unclear("its command names no model", path)
    at = rest.index("--model")
    return rest[at + 1], (*rest[:at], *rest[at + 2:])


def _unclear(what: str, path: Path) -> UsageError:
    return UsageError(what, where=f"{path.name}: command",
                      next_step='give it one command "vllm serve MODEL ..." and import again')


def _nodes(raw: Mapping[str, Any], defaults: Mapping[str, Any]) -> int:
    numbers = [raw.get("min_nodes"), *(defaults.get(f"{name}_parallel")
                                       for name in ("tensor", "pipeline", "data"))]
    if raw.get("cluster_only"):
        numbers.append(2)
    return max([1, *(number for number in numbers if isinstance(number, int))])
