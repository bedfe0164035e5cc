"""The Python sources inside a wheel, parsed without running them: modules, names, annotations.

vLLM builds its command line from the annotations of its configuration classes. They are followed
here from module to module, so that what a flag takes is read from the very wheel of an image.
"""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from builder.errors import LockError, command
from builder.files import ZIP_FAULTS
from builder.limits import MODULE_BYTES, SOURCES_BYTES

BUILTIN = {"bool", "int", "float", "str", "dict"}
COLLECTIONS = {"list", "List", "set", "tuple", "Sequence", "Iterable", "frozenset"}
TRANSPARENT = {"Optional", "Union", "Annotated", "SkipValidation", "Final", "InitVar"}
DEPTH = 12  # of names that lead to names


class Hint:
    """One member of an annotation's union.

    ``kind`` is a built-in type, or one of literal, enum, collection, config (a configuration class,
    given as JSON), none, other.
    """

    def __init__(self, kind: str, options: Iterable[str] = (), config: tuple[str, str] = ("", "")
                 ) -> None:
        """Keep the options of a literal or an enum, the module and name of a config class."""
        self.kind, self.options, self.config = kind, tuple(options), config


class WheelSources:
    """All ``.py`` files of a wheel, read once; modules are parsed when they are asked for."""

    def __init__(self, wheel: Path) -> None:
        """Read the sources; raises LockError for a file that is not a whole wheel."""
        self.wheel = wheel
        self._trees: dict[str, ast.Module | None] = {}
        self._names: dict[str, dict[str, ast.stmt]] = {}
        try:
            with zipfile.ZipFile(wheel) as archive:
                self.texts = dict(_texts(archive))
        except (OSError, *ZIP_FAULTS) as error:
            raise LockError(f"{wheel.name} cannot be read: {error}", where=str(wheel),
                            next_step=f"remove it and run {command('fetch')}") from error

    @cached_property
    def text(self) -> str:
        """Return all sources as one text, to search for words."""
        return "\0".join(self.texts.values())

    def tree(self, module: str) -> ast.Module | None:
        """Return a module's syntax tree; None where it is missing or does not parse."""
        if module not in self._trees:
            path = module.replace(".", "/")
            text = self.texts.get(f"{path}.py", self.texts.get(f"{path}/__init__.py"))
            try:
                self._trees[module] = None if text is None else ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._trees[module] = None
        return self._trees[module]

    def find(self, module: str, name: str, depth: int = DEPTH) -> tuple[str, ast.stmt] | None:
        """Return where a name is defined, and the statement, through imports."""
        if module not in self._names:
            tree = self.tree(module)
            self._names[module] = {} if tree is None else _definitions(tree.body)
        node = self._names[module].get(name)
        if not isinstance(node, ast.ImportFrom):
            return (module, node) if node is not None else None
        origin = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
        return self.find(self._imported(module, node), origin, depth - 1) if depth else None

    def _imported(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        is_package = f"{module.replace('.', '/')}/__init__.py" in self.texts
        parts = module.split(".")
        parts = parts[:len(parts) - node.level + is_package]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def fields(self, module: str, name: str, depth: int = DEPTH
               ) -> dict[str, tuple[str, ast.expr]]:
        """Return the annotated fields of a class and of its bases: name -> module, annotation."""
        found = self.find(module, name)
        if found is None or not isinstance(found[1], ast.ClassDef) or not depth:
            return {}
        home, node = found[0], found[1]
        fields: dict[str, tuple[str, ast.expr]] = {}
        for base in node.bases:
            if isinstance(base, ast.Name):
                fields |= self.fields(home, base.id, depth - 1)
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                fields[item.target.id] = (home, item.annotation)
        return fields

    def hints(self, module: str, node: ast.expr, depth: int = DEPTH) -> list[Hint]:
        """Return what an annotation allows, each member of a union by itself."""
        if not depth:
            return [Hint("other")]
        match node:
            case ast.Constant(value=None):
                return [Hint("none")]
            case ast.Constant(value=str(text)):
                return self._written(module, text, depth - 1)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return [*self.hints(module, left, depth), *self.hints(module, right, depth)]
            case ast.Name(id=name) if name in BUILTIN:
                return [Hint(name)]
            case ast.Name(id=name) if name in COLLECTIONS:
                return [Hint("collection")]
            case ast.Name(id=name):
                return self._named(module, name, depth - 1)
            case ast.Subscript(value=ast.Name(id=name), slice=inner):
                return self._subscript(module, name, inner, depth - 1)
        return [Hint("other")]

    def _written(self, module: str, text: str, depth: int) -> list[Hint]:
        """Return what an annotation in quotes allows; it need not be Python."""
        try:
            node = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return [Hint("other")]
        return self.hints(module, node, depth)

    def _subscript(self, module: str, name: str, inner: ast.expr, depth: int) -> list[Hint]:
        members = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        if name == "Annotated":
            members = members[:1]
        if name in TRANSPARENT:
            hints = [hint for member in members for hint in self.hints(module, member, depth)]
            return [*hints, *([Hint("none")] if name == "Optional" else [])]
        if name == "Literal":
            return [self._literal(module, members, depth)]
        if name in COLLECTIONS:
            return [Hint("collection")]
        return [Hint("dict" if name in ("dict", "Dict", "Mapping") else "other")]

    def _literal(self, module: str, members: Iterable[ast.expr], depth: int) -> Hint:
        """Return one literal; another one may be a member of it."""
        options: list[str] = []
        for member in members:
            if isinstance(member, ast.Constant):
                options.append(str(member.value))
                continue
            inner = self.hints(module, member, depth)
            if any(hint.kind != "literal" for hint in inner):
                return Hint("other")
            options += [option for hint in inner for option in hint.options]
        return Hint("literal", options)

    def _named(self, module: str, name: str, depth: int) -> list[Hint]:
        found = self.find(module, name)
        match found:
            case (home, ast.Assign(value=value)) | (home, ast.AnnAssign(value=ast.expr() as value)):
                return self.hints(home, value, depth)
            case (home, ast.ClassDef() as node):
                if any("Enum" in ast.unparse(base) for base in node.bases):
                    return [Hint("enum", _enum_names(node))]
                is_config = any(re.search("config|dataclass", ast.unparse(decorator))
                                for decorator in node.decorator_list)
                return [Hint("config", config=(home, node.name)) if is_config else Hint("other")]
        return [Hint("other")]


def _texts(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    total = 0
    for member in archive.infolist():
        if not member.filename.endswith(".py") or member.file_size > MODULE_BYTES:
            continue
        total += member.file_size
        if total > SOURCES_BYTES:
            raise zipfile.BadZipFile(f"more than {SOURCES_BYTES} bytes of Python")
        yield member.filename, archive.read(member).decode("utf-8", "replace")


def _definitions(body: Iterable[ast.stmt]) -> dict[str, ast.stmt]:
    """Return the names that a module defines; the first definition counts.

    ``if TYPE_CHECKING:`` stands before the ``else:`` that replaces a type by ``Any``.
    """
    names: dict[str, ast.stmt] = {}
    for node in body:
        match node:
            case ast.ImportFrom():
                found = [alias.asname or alias.name for alias in node.names]
            case ast.ClassDef() | ast.FunctionDef():
                found = [node.name]
            case ast.Assign():
                found = [target.id for target in node.targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                found = [name]
            case ast.If() | ast.Try():
                names = _definitions([*node.body, *node.orelse]) | names
                continue
            case _:
                continue
        for name in found:
            names.setdefault(name, node)
    return names


def _enum_names(node: ast.ClassDef) -> list[str]:
    return [target.id for item in node.body if isinstance(item, ast.Assign)
            for target in item.targets if isinstance(target, ast.Name)]
