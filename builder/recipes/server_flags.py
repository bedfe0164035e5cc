"""The command line of a vLLM, read from its sources: every flag, and the values that it takes.

vLLM registers its flags in ``EngineArgs.add_cli_args``, ``AsyncEngineArgs.add_cli_args``,
``FrontendArgs`` and ``make_arg_parser``. What a flag takes comes from a field of a configuration
class (``**model_kwargs["dtype"]``) or is written out beside it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from builder.errors import LockError, command
from builder.model import Frozen
from builder.recipes.wheel_sources import Hint, WheelSources

ENGINE = "vllm.engine.arg_utils"
# Parsers by name: vLLM checks these two flags against its registers, after the command line.
REGISTERS = {"--tool-call-parser": ("vllm.tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
             "--reasoning-parser": ("vllm.reasoning", "_REASONING_PARSERS_TO_REGISTER")}


class Kind(StrEnum):
    """What follows a flag."""

    SWITCH = "switch"  # nothing
    BOOLEAN = "boolean"  # nothing; --no-<name> is the opposite
    INT = "int"
    FLOAT = "float"
    JSON = "json"
    TEXT = "text"


class Flag(Frozen):
    """One flag: its spellings and what it takes.

    ``choices`` are all values, or with ``is_open`` the known ones of any text. ``keys`` are the
    fields of the configuration class that its JSON fills, each with its choices.
    """

    names: tuple[str, ...]
    kind: Kind = Kind.TEXT
    choices: tuple[str, ...] = ()
    is_open: bool = False
    is_optional: bool = False
    takes_many: bool = False
    keys: Mapping[str, tuple[str, ...]] = {}


def read_flags(sources: WheelSources) -> tuple[Flag, ...]:
    """Return every flag of ``vllm serve``; raises LockError where the sources have another form."""
    flags = [*_registered(sources, ENGINE, "EngineArgs"),
             *_registered(sources, ENGINE, "AsyncEngineArgs"), *_frontend(sources)]
    if len(flags) < 50:  # vLLM 0.19 has more than 200
        raise LockError(
            f"the flags of {sources.wheel.name} cannot be read from its sources",
            where=ENGINE, next_step=f"see `vllm serve --help=all` in the image instead, and report "
                                    f"this ({command('recipe', 'check')})")
    return tuple(_with_register(sources, flag) for flag in flags)


def _frontend(sources: WheelSources) -> Iterator[Flag]:
    for path in sources.texts:
        if not re.fullmatch(r"vllm/entrypoints/\w+/cli_args\.py", path):
            continue
        module = path.removesuffix(".py").replace("/", ".")
        for name, (home, annotation) in sources.fields(module, "FrontendArgs").items():
            yield _from_hints(sources, (f"--{name.replace('_', '-')}",),
                              sources.hints(home, annotation))
        yield from _registered(sources, module, "")


def _registered(sources: WheelSources, module: str, owner: str) -> Iterator[Flag]:
    """Yield the flags of ``add_cli_args`` of a class, or of a module's ``make_arg_parser``."""
    found = sources.find(module, owner or "make_arg_parser")
    body = getattr(found[1], "body", []) if found else []
    function = next((node for node in body if isinstance(node, ast.FunctionDef)
                     and node.name == "add_cli_args"), None) if owner else found and found[1]
    if function is None:
        return
    fields = _Fields(sources, module, function)
    for node in ast.walk(function):
        if (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                and node.func.attr == "add_argument"):
            names = tuple(str(word.value) for word in node.args if isinstance(word, ast.Constant)
                          and str(word.value).startswith("-"))
            if names:
                yield _flag(sources, names, node.keywords, fields)


class _Fields:
    """The local variables of ``add_cli_args`` that hold the arguments made from a class."""

    def __init__(self, sources: WheelSources, module: str, function: ast.AST) -> None:
        self._sources, self._module = sources, module
        self._names = {target.id: node.value for node in ast.walk(function)
                       if isinstance(node, ast.Assign) for target in node.targets
                       if isinstance(target, ast.Name)}

    def hints(self, node: ast.expr) -> list[Hint] | None:
        """Return what ``**node`` of an add_argument allows; None where that cannot be told."""
        match node:
            case ast.Name(id=name) if name in self._names:
                return self.hints(self._names[name])
            case ast.Dict(keys=[None, *_], values=[first, *_]):
                return self.hints(first)
            case ast.Subscript(value=value, slice=ast.Constant(value=str(field))):
                owner = self._owner(value)
                fields = self._sources.fields(self._module, owner) if owner else {}
                return self._sources.hints(*fields[field]) if field in fields else None
        return None

    def choices(self, node: ast.expr) -> tuple[str, ...]:
        """Return the values of ``choices=``: a list, or ``get_args`` of a literal's name."""
        match node:
            case ast.List(elts=members) | ast.Tuple(elts=members):
                return tuple(str(member.value) for member in members
                             if isinstance(member, ast.Constant))
            case ast.Call(func=ast.Name(id="get_args"), args=[literal]):
                return _choices(self._sources.hints(self._module, literal))
        return ()

    def _owner(self, node: ast.expr) -> str:
        """Return the class of ``get_kwargs(Class)``, through a local variable."""
        match node:
            case ast.Name(id=name) if name in self._names:
                return self._owner(self._names[name])
            case ast.Call(func=ast.Name(id="get_kwargs"), args=[ast.Name(id=name)]):
                return name
        return ""


def _flag(sources: WheelSources, names: tuple[str, ...], keywords: Sequence[ast.keyword],
          fields: _Fields) -> Flag:
    spread = next((word.value for word in keywords if word.arg is None), None)
    hints = fields.hints(spread) if spread is not None else None
    flag = Flag(names=names) if hints is None else _from_hints(sources, names, hints)
    given = {word.arg: word.value for word in keywords if word.arg}
    changes: dict[str, object] = {}
    action = ast.unparse(given["action"]) if "action" in given else ""
    if action.endswith("BooleanOptionalAction"):
        changes["kind"] = Kind.BOOLEAN
    elif action.strip("'\"") in ("store_true", "store_false"):
        changes["kind"] = Kind.SWITCH
    elif "type" in given:
        changes["kind"] = {"int": Kind.INT, "float": Kind.FLOAT, "json.loads": Kind.JSON}.get(
            ast.unparse(given["type"]), Kind.TEXT)
    if "choices" in given:
        changes["choices"] = fields.choices(given["choices"])
    nargs = ast.unparse(given["nargs"]).strip("'\"") if "nargs" in given else ""
    changes |= {"is_optional": True} if nargs in ("?", "*") else {}
    changes |= {"takes_many": True} if nargs in ("+", "*") else {}
    return flag.model_copy(update=changes)


def _from_hints(sources: WheelSources, names: tuple[str, ...], hints: Sequence[Hint]) -> Flag:
    """Return a flag as vLLM's ``get_kwargs`` makes it; the order of the cases is vLLM's."""
    by_kind = {hint.kind: hint for hint in hints}
    many = "collection" in by_kind
    if "config" in by_kind:
        fields = sources.fields(*by_kind["config"].config)
        return Flag(names=names, kind=Kind.JSON, keys={
            name: _choices(sources.hints(*where)) for name, where in fields.items()})
    if "bool" in by_kind and "str" in by_kind:  # --hf-token: alone, or with a token
        return Flag(names=names, is_optional=True)
    if "bool" in by_kind:
        return Flag(names=names, kind=Kind.BOOLEAN)
    if "literal" in by_kind or "enum" in by_kind:
        options = tuple(option for hint in hints for option in hint.options)
        return Flag(names=names, choices=options, takes_many=many,
                    is_open="str" in by_kind or "literal" not in by_kind)
    if many:
        return Flag(names=names, takes_many=True)
    if "dict" in by_kind and "str" not in by_kind:
        return Flag(names=names, kind=Kind.JSON)
    for kind in (Kind.INT, Kind.FLOAT):
        if kind.value in by_kind and not {"str", "other"} & set(by_kind):
            return Flag(names=names, kind=kind)
    return Flag(names=names)


def _choices(hints: Sequence[Hint]) -> tuple[str, ...]:
    """Return the values of a configuration field that takes nothing else."""
    if any(hint.kind not in ("literal", "none") for hint in hints):
        return ()
    return tuple(option for hint in hints for option in hint.options)


def _with_register(sources: WheelSources, flag: Flag) -> Flag:
    where = next((REGISTERS[name] for name in flag.names if name in REGISTERS), None)
    found = sources.find(*where) if where else None
    match found:
        case (_, ast.Assign(value=ast.Dict(keys=keys)) | ast.AnnAssign(value=ast.Dict(keys=keys))):
            known = tuple(str(key.value) for key in keys if isinstance(key, ast.Constant))
            return flag.model_copy(update={"choices": known, "is_open": False})
    return flag
