r"""Find out whether a server can write a line that a pattern finds, from its sources' strings.

A pattern that no message can match fails on a healthy server too. Each message is a template:
fixed text with gaps (``%s``, ``{}``, the values of an f-string). A pattern is compared as a finite
automaton, so that its ``(a|b)``, ``\d+`` and ``.*`` mean what they mean. Since a gap may hold
anything, enough of the match must be fixed text, and the pattern's words must stand in the sources.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from builder.recipes.wheel_sources import WheelSources

GAP = "\0"
SHARE = 0.35  # of the pattern's fixed characters that a message must state
LEAST = 8  # fixed characters, where the pattern has as many
MODULES = 120  # that may hold the message; the likeliest first
ALTERNATIVES = 64  # of one pattern
_PLACEHOLDER = re.compile(r"%(?:\(\w+\))?[-+ #0]*\d*(?:\.\d+)?[sdrifgexa]|\{[^{}\n]*\}")
_sre = importlib.import_module("re._parser")  # the parser of `re`: no public one exists
Test = Callable[[str], bool]


class _Automaton:
    """A pattern's automaton; ``fixed`` says whether a step stands for one certain character."""

    def __init__(self, pattern: str) -> None:
        self.free: list[list[int]] = [[]]
        self.steps: list[list[tuple[Test, bool, int]]] = [[]]
        self.end = self._sequence(_sre.parse(pattern), 0)

    def _new(self) -> int:
        self.free.append([])
        self.steps.append([])
        return len(self.free) - 1

    def _sequence(self, items: Any, at: int) -> int:
        for operation, argument in items:
            at = self._item(str(operation), argument, at)
        return at

    def _item(self, operation: str, argument: Any, at: int) -> int:
        if operation == "SUBPATTERN":
            return self._sequence(argument[3], at)
        if operation == "BRANCH":
            end = self._new()
            for branch in argument[1]:
                start = self._new()
                self.free[at].append(start)
                self.free[self._sequence(branch, start)].append(end)
            return end
        if operation.endswith("REPEAT"):
            least, most, inner = argument
            return self._repeat(int(least), int(most), inner, at)
        if operation in ("AT", "ASSERT", "ASSERT_NOT"):
            return at
        end = self._new()
        test, is_fixed = _test(operation, argument)
        self.steps[at].append((test, is_fixed, end))
        return end

    def _repeat(self, least: int, most: int, inner: Any, at: int) -> int:
        for _ in range(min(least, 20)):
            at = self._sequence(inner, at)
        if most > least:
            start, end = self._new(), self._new()
            self.free[at] += [start, end]
            last = self._sequence(inner, start)
            self.free[last] += [start, end]
            return end
        return at

    def closure(self, states: dict[int, int]) -> dict[int, int]:
        """Add what is reached without a character; the best count of fixed characters stays."""
        todo = list(states)
        while todo:
            state = todo.pop()
            for following in self.free[state]:
                if states.get(following, -1) < states[state]:
                    states[following] = states[state]
                    todo.append(following)
        return states

    def through_gap(self, states: dict[int, int]) -> dict[int, int]:
        """Add what any text leads to."""
        todo = list(states)
        while todo:
            state = todo.pop()
            for following in [*self.free[state], *(end for _, _, end in self.steps[state])]:
                if states.get(following, -1) < states[state]:
                    states[following] = states[state]
                    todo.append(following)
        return states


def _test(operation: str, argument: Any) -> tuple[Test, bool]:
    if operation == "LITERAL":
        return chr(argument).__eq__, True
    if operation == "NOT_LITERAL":
        return chr(argument).__ne__, False
    if operation == "IN":
        members = [(str(kind), value) for kind, value in argument]
        tests = [_member(kind, value) for kind, value in members if kind != "NEGATE"]
        negated = any(kind == "NEGATE" for kind, _ in members)
        is_fixed = not negated and len(members) <= 4 and all(
            kind == "LITERAL" for kind, _ in members)
        return (lambda char: any(test(char) for test in tests) != negated), is_fixed
    return _anything, False


def _anything(_: str) -> bool:
    return True


def _member(kind: str, value: Any) -> Test:
    if kind == "LITERAL":
        return chr(value).__eq__
    if kind == "RANGE":
        return lambda char: value[0] <= ord(char) <= value[1]
    name = str(value).removeprefix("CATEGORY_")
    tests: dict[str, Test] = {"DIGIT": str.isdigit, "SPACE": str.isspace,
                              "WORD": lambda char: char.isalnum() or char == "_"}
    test = tests.get(name.removeprefix("NOT_"), _anything)
    return (lambda char: not test(char)) if name.startswith("NOT_") else test


def agrees(pattern: str, message: str) -> bool:
    """Say whether ``message``, with gaps, can become a line in which ``pattern`` is found."""
    automaton = _Automaton(pattern)
    states = automaton.closure({0: 0})
    best = states.get(automaton.end, -1)
    for char in message:
        if char == GAP:
            states = automaton.through_gap(states)
        else:
            following = {0: 0}
            for state, count in states.items():
                for test, is_fixed, end in automaton.steps[state]:
                    if test(char):
                        following[end] = max(following.get(end, -1), count + is_fixed)
            states = automaton.closure(following)
        best = max(best, states.get(automaton.end, -1))
    fixed = min(map(len, map("".join, alternatives(pattern))))
    return best >= max(SHARE * fixed, min(LEAST, fixed))


def alternatives(pattern: str) -> list[tuple[str, ...]]:
    """Return the runs of fixed text of each alternative of a pattern."""
    return [tuple(run for run in "".join(text).split(GAP) if run)
            for text in _runs(_sre.parse(pattern))]


def _runs(items: Any) -> list[str]:
    texts = [""]
    for operation, argument in items:
        match str(operation):
            case "LITERAL":
                ends = [chr(argument)]
            case "SUBPATTERN":
                ends = _runs(argument[3])
            case "BRANCH":
                ends = [text for branch in argument[1] for text in _runs(branch)]
            case "AT":
                ends = [""]
            case "MAX_REPEAT" | "MIN_REPEAT" if argument[0]:
                ends = [f"{GAP}{text}{GAP}" for text in _runs(argument[2])]
            case _:
                ends = [GAP]
        texts = [text + end for text in texts for end in ends][:ALTERNATIVES]
    return texts


def messages(tree: ast.AST) -> Iterator[str]:
    """Yield the strings of a module as templates; what is formatted into them becomes a gap."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
              for part in node.values}
    inside |= {id(node.format_spec) for node in ast.walk(tree)
               if isinstance(node, ast.FormattedValue) and node.format_spec}
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(_with_gaps(str(part.value)) if isinstance(part, ast.Constant) else GAP
                          for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield _with_gaps(node.value)


def _with_gaps(text: str) -> str:
    return _PLACEHOLDER.sub(GAP, text)


def can_show(pattern: str, all_sources: Sequence[WheelSources]) -> bool:
    """Say whether some message in the sources can match the pattern."""
    possible = [runs for runs in alternatives(pattern)
                if all(any(word in sources.text for sources in all_sources)
                       for run in runs for word in re.findall(r"\w{4,}", run))]
    smallest_first = sorted(all_sources, key=lambda sources: len(sources.text))
    return bool(possible) and any(_shows(pattern, _words(possible), sources)
                                  for sources in smallest_first)


def _words(possible: Sequence[Sequence[str]]) -> list[set[str]]:
    return [set(re.findall(r"\w{3,}", " ".join(runs))) for runs in possible]


def _shows(pattern: str, possible: Sequence[set[str]], sources: WheelSources) -> bool:
    """Look in the modules that hold most of the pattern's words; one word may be a gap's value."""
    ranked = []
    for path, text in sources.texts.items():
        share = max((sum(word in text for word in words) / len(words) if words else 1.0)
                    for words in possible)
        if share >= 0.5:
            ranked.append((-share, path))
    wanted = {word for words in possible for word in words}
    for _, path in sorted(ranked)[:MODULES]:
        tree = sources.tree(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        for message in messages(tree) if tree is not None else ():
            if (not wanted or any(word in message for word in wanted)) and agrees(pattern, message):
                return True
    return False
