"""The borders of the code: who may touch the network, the engine and the terminal; sizes; order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

# Taken apart, so that this file names no registry itself.
REGISTRIES = tuple(".".join(parts) for parts in (
    ("pypi", "org"), ("deb", "debian", "org"), ("files", "pythonhosted", "org")))
ROOT = Path(__file__).parents[2]
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path
           for path in sorted((ROOT / "builder").rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}

NETWORK = {"requests", "urllib3", "http", "socket", "urllib.request", "oras"}
# smoke.* and host speak to this machine only; bench to it, or to the server that --url names.
MAY_USE_THE_NETWORK = re.compile(
    r"builder\.(fetch\.\w+|indexes\.\w+|locking\.(resolver|candidates|uv)|debian\.fetch|host\.setup"
    r"|patches\.(upstream|artifact)|smoke\.(client|probes)|bench\.client"
    r"|registry\.(body|client))")
# The house from the ground up: what stands later may import what stands before, never the reverse.
ORDER = (
    "errors",
    "labels",
    "wording",
    "specifiers",
    "model",
    "text",
    "limits",
    "removal",
    "console",
    "process_group",
    "process",
    "config_file",
    "files",
    "tarball",
    "git_library",
    "cache_folder",
    "matrix",
    "workspace",
    "indexes",
    "locking",
    "store",
    "fetch",
    "registry",
    "engine",
    "debian",
    "binaries",
    "bases",
    "gate",
    "layers",
    "patches",
    "lean",
    "wheels",
    "compile",
    "recipes",
    "image",
    "sbom",
    "provenance",
    "record",
    "doctor",
    "diagnosis",
    "smoke",
    "serve",
    "bench",
    "promotion",
    "report",
    "site",
    "host",
    "plan",
    "direct_push",
    "attachments",
    "nightly",
    "publish",
    "peers",
    "build",
    "bisection",
    "commands",
    "crash_report",
    "cli",
    "__main__",
)
STARTS = {"run", "Popen", "call", "check_call", "check_output"}
ALLOWED = (
    (NETWORK, MAY_USE_THE_NETWORK),
    ({"python_on_whales"}, re.compile(r"builder\.engine\.client")),
    ({"rich"}, re.compile(r"builder\.(report\.terminal|console)")),
    ({"jinja2", "markupsafe"}, re.compile(r"builder\.(report\.html|site\.page)")),
)


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def inside(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize(("packages", "allowed"), ALLOWED,
                         ids=("network", "engine", "terminal", "pages"))
def test_borders(packages: set[str], allowed: re.Pattern[str]) -> None:
    crossing = {name for name, tree in TREES.items()
                if any(inside(found, packages) for found in imports(tree))}
    assert {name for name in crossing if not allowed.fullmatch(name)} == set()


def test_every_program_is_started_in_one_place() -> None:
    """``smoke/inside`` is another program: it is copied into the container and runs there."""
    starting = {name for name, tree in TREES.items() for node in ast.walk(tree)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and (node.func.value.id, node.func.attr) in
                {("os", "system"), *(("subprocess", start) for start in STARTS)}}
    assert "builder.process" in starting
    inside = ("builder.smoke.inside", "builder.compile.inside")
    assert {name for name in starting if not name.startswith(inside)} == {"builder.process"}


def test_the_border_test_sees_every_way_to_import() -> None:
    tree = ast.parse("import http.client\nfrom urllib import request\nfrom rich.table import Table")
    found = list(imports(tree))
    assert inside("http.client", NETWORK)
    assert any(inside(name, NETWORK) for name in found if name.startswith("urllib"))
    assert any(inside(name, {"rich"}) for name in found)
    assert not any(inside(name, NETWORK) for name in imports(ast.parse("import urllib.parse")))


def test_stages_never_import_commands() -> None:
    assert [name for name, tree in TREES.items() if not name.startswith("builder.commands")
            and any(found.startswith("builder.commands") for found in imports(tree))] == []


def unit(module: str) -> str:
    """Return the package, or the module of ``builder/`` itself, that a module belongs to."""
    return module.split(".")[1] if "." in module else module


def package_graph(trees: Mapping[str, ast.AST]) -> dict[str, set[str]]:
    """Return which packages each package imports; modules of ``builder/`` count as packages."""
    graph: dict[str, set[str]] = {unit(name): set() for name in trees}
    for name, tree in trees.items():
        for imported in imports(tree):
            if imported in trees and unit(imported) != unit(name):
                graph[unit(name)].add(unit(imported))
    return graph


def upward(graph: Mapping[str, set[str]], order: Sequence[str]) -> set[str]:
    """Return the arrows that do not point downwards; a circle always has one."""
    level = {name: number for number, name in enumerate(order)}
    return {f"{upper} -> {lower}" for upper, lowers in graph.items() for lower in lowers
            if level[lower] >= level[upper]}


def test_imports_point_downwards_only() -> None:
    graph = package_graph({name: tree for name, tree in TREES.items()
                           if not name.endswith("__init__")})
    assert set(graph) == set(ORDER), "a new package takes its place in ORDER"
    assert upward(graph, ORDER) == set()


def test_an_upward_arrow_and_a_circle_through_packages_are_seen() -> None:
    trees = {name: ast.parse(code) for name, code in {
        "builder.low.a": "", "builder.low.b": "from builder.high import d",
        "builder.high.c": "from builder.low.a import thing", "builder.high.d": "",
    }.items()}
    graph = package_graph(trees)
    assert graph == {"low": {"high"}, "high": {"low"}}
    assert upward(graph, ("low", "high")) == {"low -> high"}
    assert upward(graph, ("high", "low")) == {"high -> low"}


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {name: {found for found in imports(tree) if found in MODULES and found != name}
             for name, tree in TREES.items()}
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("name", MODULES)
def test_sizes_and_docstrings(name: str) -> None:
    tree = TREES[name]
    assert ast.get_docstring(tree), "a module says what it is for"
    assert len(MODULES[name].read_text(encoding="utf-8").splitlines()) <= 350
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not isinstance(node, ast.ClassDef):
                assert (node.end_lineno or 0) - node.lineno < 50, node.name
            if not node.name.startswith("_") and node in tree.body:
                assert ast.get_docstring(node), node.name


def test_no_module_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "common", "misc", "tools"}
    assert [name for name in MODULES if name.rsplit(".", 1)[-1] in drawers] == []


def test_no_committed_text_names_this_machine() -> None:
    wrong = re.compile(r"/work/|/root/(?!\.cache/huggingface)|/farm/|" + "|".join(REGISTRIES))
    folders = ("builder", "recipes", "locks", ".github", ".ci", "images")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")
             if path.is_file() and path.suffix in ("", ".py", ".toml", ".yml", ".md", ".sh")]
    files += [*ROOT.glob("*.md"), ROOT / "noxfile.py", ROOT / "matrix.toml", ROOT / "nox"]
    found = {str(path.relative_to(ROOT)): match[0] for path in files
             if (match := wrong.search(path.read_text(encoding="utf-8")))}
    assert found == {}
