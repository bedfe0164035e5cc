"""``sparkyard bisect``: which version of vLLM broke a recipe, found by halving."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from builder import console
from builder.bisection.judge import Judge
from builder.bisection.search import Verdict
from builder.bisection.state import FOLDER, Bisection, Question, Step, load, save, state_path
from builder.commands.recipe_check import recipe_cell
from builder.commands.smoke import TINY, default_level, served_folder
from builder.engine.client import Engine
from builder.errors import UsageError, VerdictError, command
from builder.indexes.releases import released
from builder.indexes.settings import user_sources
from builder.locking.candidates import target_tags
from builder.matrix.cells import Cell
from builder.recipes.load import load_recipe
from builder.record.models import Level
from builder.removal import remove_file
from builder.smoke.record_start import recipe_digest
from builder.workspace import Workspace, open_workspace

COLUMNS = ("version", "verdict", "record", "diagnosis")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "bisect", help="find the version of vLLM that broke a recipe",
        description="Locks, builds and smoke-tests versions between a good and a bad one, halving "
                    "the range each time. A version that cannot be locked or built is skipped. "
                    "The same command goes on where it was stopped. docs/bisect.md explains it.")
    parser.add_argument("recipe", metavar="RECIPE", help="the name of a file in recipes/, no .toml")
    parser.add_argument("--good", required=True, metavar="V", help="a version that works")
    parser.add_argument("--bad", required=True, metavar="V", help="a version that does not")
    parser.add_argument("--cell", metavar="CELL",
                        help="the cell to vary (default: the first locked cell of the image)")
    parser.add_argument("--level", choices=("1a", "1b", "2"),
                        help="the level of the smoke test (default: the highest this host can run)")
    parser.add_argument("--nightlies", action="store_true",
                        help="also take development builds that an index lists")
    parser.add_argument("--verify", action="store_true",
                        help="judge the good and the bad version too, before all others")
    parser.add_argument("--restart", action="store_true", help="forget what was judged before")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Search, and show the evidence; 0 where one version is named as the first bad one, else 1."""
    workspace = open_workspace(options.matrix)
    recipe = load_recipe(workspace.root, options.recipe)
    cell, _ = recipe_cell(workspace, recipe, options.cell)
    engine = Engine.connect()
    level: Level = options.level or default_level(cell, engine.info.platform)
    question = Question(
        recipe=recipe.name, recipe_digest=recipe_digest(workspace.root, recipe), cell=cell.id,
        intent=cell.intent_digest, level=level, good=options.good, bad=options.bad,
        nightlies=options.nightlies)
    model = (served_folder(workspace, recipe) if level == "2" else
             workspace.root / "tests" / "fixtures" / TINY)
    judge = Judge(workspace, engine, question, recipe, cell, model)
    found = begin(workspace, cell, question, restart=options.restart)
    found = search(workspace, found, judge, verify=options.verify)
    _show(found, as_json=options.json)
    return 0 if len(found.search.suspects) == 1 else 1


def begin(workspace: Workspace, cell: Cell, question: Question, *, restart: bool) -> Bisection:
    """Return the search as it was left, or a new one over the versions that the indexes have."""
    if restart:
        remove_file(state_path(workspace.cache, question), workspace.cache / FOLDER)
    left = load(workspace.cache, question)
    if left:
        console.info(f"going on: {len(left.steps)} of {len(left.versions)} versions are judged")
        return left
    offered = released(canonicalize_name(cell.vllm_package), cell.indexes, user_sources(),
                       target_tags(cell), nightlies=question.nightlies)
    return Bisection(question=question, versions=between(offered, question.good, question.bad))


def between(offered: Sequence[str], good: str, bad: str) -> tuple[str, ...]:
    """Return the versions from the good one to the bad one, both included; raises UsageError."""
    try:
        low, high = sorted((Version(good), Version(bad)))
    except InvalidVersion as error:
        raise UsageError(str(error), where="--good, --bad",
                         next_step="name two versions, such as 0.31.0") from error
    missing = [name for name in (good, bad) if Version(name) not in map(Version, offered)]
    if missing or low == high:
        raise UsageError(
            f"no index has a wheel of {' and '.join(missing)} for this cell" if missing else
            "the good and the bad version are the same", where="--good, --bad",
            next_step=f"versions with a wheel: {', '.join(offered[-20:])}")
    inside = [version for version in offered if low <= Version(version) <= high]
    return tuple(inside if Version(good) < Version(bad) else reversed(inside))


def search(workspace: Workspace, found: Bisection, judge: Callable[[str], Step], *, verify: bool
           ) -> Bisection:
    """Judge until one version is left, saving each step; raises VerdictError for a wrong end."""
    save(workspace.cache, found)
    if verify:
        for version, wanted in ((found.versions[0], Verdict.GOOD),
                                (found.versions[-1], Verdict.BAD)):
            found = _judged(workspace, found, judge, version)
            step = found.step(version)
            if step is None or step.verdict is not wanted:
                raise VerdictError(
                    f"{version} is named as {wanted} and is {step.verdict if step else 'unknown'}",
                    where=step.record if step else "",
                    next_step="name other versions with --good and --bad")
    while (following := found.search.next_version) is not None:
        console.info(f"{len(found.search.suspects)} versions are left, at most "
                     f"{found.search.most_left} to judge; now {following}")
        found = _judged(workspace, found, judge, following)
    return found


def _judged(workspace: Workspace, found: Bisection, judge: Callable[[str], Step], version: str
            ) -> Bisection:
    if found.step(version):
        return found
    step = judge(version)
    console.info(f"{version}: {step.verdict}" + (f" ({step.diagnosis})" if step.diagnosis else ""))
    found = found.with_step(step)
    save(workspace.cache, found)
    return found


def _show(found: Bisection, *, as_json: bool) -> None:
    known = found.search
    smoked = sum(step.verdict is not Verdict.SKIPPED for step in found.steps)
    if as_json:
        console.document({**found.model_dump(mode="json"), "last_good": known.last_good,
                          "suspects": list(known.suspects), "judged": smoked})
        return
    console.table("", COLUMNS, [_row(found, version) for version in found.versions])
    kind = "first bad" if len(known.suspects) == 1 else "one of these is the first bad"
    console.out(f"{kind}: {', '.join(known.suspects)}; last good: {known.last_good}; "
                f"{smoked} smoke tests of {len(found.versions)} versions")
    step = found.step(known.last_good)
    console.info(f"write it into the recipe: {command('pin', found.question.recipe)}"
                 if step and step.record else
                 f"{known.last_good} was taken as good and not judged; --verify judges it")


def _row(found: Bisection, version: str) -> tuple[str, str, str, str]:
    step = found.step(version)
    if step:
        return version, str(step.verdict), step.record, step.diagnosis
    ends = {found.versions[0]: "good, as named", found.versions[-1]: "bad, as named"}
    place, known = found.versions.index(version), found.search
    return version, ends.get(version) or (
        "good, as a later one is" if place < known.good else "not judged"), "", ""
