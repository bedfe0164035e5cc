"""Judge the arguments of a recipe's ``serve``: flags of this vLLM, with values that it takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from builder.config_file import suggestion
from builder.recipes.server_flags import Flag, Kind

NUMBER = {Kind.INT: re.compile(r"-?\d+(\.\d+)?[kKmMgGtT]?|auto|None"),
          Kind.FLOAT: re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|None")}


@dataclass(frozen=True)
class Argument:
    """One flag as a recipe has it, with the words up to the next flag."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Problem:
    """What is wrong with an argument, what to do, and whether vLLM would refuse it for certain.

    ``unknown`` is the flag's name where this vLLM has no such flag.
    """

    what: str
    next_step: str = ""
    is_certain: bool = True
    unknown: str = ""


def arguments(serve: Sequence[str]) -> list[Argument]:
    """Return the words of ``serve`` by flag, in vLLM's own spelling (- for _)."""
    found: list[Argument] = []
    for word in serve:
        if not re.match(r"--?[A-Za-z]", word):
            last = found.pop() if found else Argument("")
            found.append(Argument(last.name, (*last.values, word)))
            continue
        name, sign, value = word.partition("=")
        level = re.fullmatch(r"-O(\d)", name)
        if level:
            found.append(Argument("--optimization-level", (level[1],)))
        else:
            head, dot, rest = name.partition(".")
            head = head.replace("_", "-") if head.startswith("--") else head
            found.append(Argument(f"{head}{dot}{rest}", (value,) if sign else ()))
    return found


def problems(serve: Sequence[str], flags: Sequence[Flag]) -> Iterator[Problem]:
    """Yield what this vLLM would refuse of ``serve``, and values that it does not know."""
    known = spellings(flags)
    for argument in arguments(serve):
        if not argument.name:
            yield Problem(f"{argument.values[0]!r} stands before any flag")
            continue
        head, _, inside = argument.name.partition(".")
        if head not in known:
            yield Problem(f"there is no flag {head}", suggestion(head, [
                name for name in known if name.startswith("--")]) if len(head) > 2 else "",
                unknown=head)
        elif inside:
            yield from _nested(head, inside, known[head])
        else:
            yield from _values(argument, known[head])


def spellings(flags: Sequence[Flag]) -> Mapping[str, Flag]:
    """Return every spelling of every flag, ``--no-<name>`` of the boolean ones too."""
    known = {name: flag for flag in flags for name in flag.names}
    return known | {f"--no-{name[2:]}": flag for name, flag in known.items()
                    if flag.kind is Kind.BOOLEAN and name.startswith("--")}


def _nested(head: str, inside: str, flag: Flag) -> Iterator[Problem]:
    """Check a dotted flag: vLLM makes ``--x.key value`` the JSON of ``--x``."""
    if flag.kind is not Kind.JSON:
        yield Problem(f"{head}.{inside}: {head} takes no keys")
        return
    yield from _keys(head, [inside.split(".")[0].rstrip("+")], flag)


def _keys(name: str, keys: Sequence[str], flag: Flag) -> Iterator[Problem]:
    for key in keys:
        if flag.keys and key not in flag.keys:
            yield Problem(f"{name} has no key {key!r}", suggestion(key, list(flag.keys)))


def _values(argument: Argument, flag: Flag) -> Iterator[Problem]:
    name, values = argument.name, argument.values
    if flag.kind in (Kind.SWITCH, Kind.BOOLEAN):
        if values:
            opposite = f"; {name} is on when it stands there, --no-{name[2:]} is off" \
                if flag.kind is Kind.BOOLEAN and not name.startswith("--no-") else ""
            yield Problem(f"{name} takes no value, the recipe gives {values[0]!r}",
                          f"remove the value{opposite}")
    elif not values:
        if not flag.is_optional:
            yield Problem(f"{name} needs a value")
    elif len(values) > 1 and not flag.takes_many:
        yield Problem(f"{name} takes one value, the recipe gives {len(values)}")
    else:
        for value in values:
            yield from _value(name, value, flag)


def _value(name: str, value: str, flag: Flag) -> Iterator[Problem]:
    if flag.kind in NUMBER and not NUMBER[flag.kind].fullmatch(value):
        yield Problem(f"{name} takes a number, not {value!r}")
    elif flag.kind is Kind.JSON:
        yield from _json(name, value, flag)
    elif flag.choices and _plain(value) not in {*map(_plain, flag.choices), "none"}:
        yield Problem(f"{name} does not know {value!r}", suggestion(value, flag.choices),
                      is_certain=not flag.is_open)


def _json(name: str, value: str, flag: Flag) -> Iterator[Problem]:
    try:
        document = json.loads(value)
    except (ValueError, RecursionError) as error:
        yield Problem(f"{name} takes JSON; this is none: {error}")
        return
    if not isinstance(document, dict):
        return  # such as the level of --compilation-config
    yield from _keys(name, list(document), flag)
    for key, inner in document.items():
        choices = flag.keys.get(key, ())
        if choices and isinstance(inner, str) and _plain(inner) not in map(_plain, choices):
            yield Problem(f"{name}: {key} does not know {inner!r}", suggestion(inner, choices))


def _plain(value: str) -> str:
    """Return a value as vLLM compares it: backends are written in any case, with - or _.

    Optimization levels are an enum whose names begin with O.
    """
    plain = value.lower().replace("-", "_")
    return f"o{plain}" if plain.isdigit() and len(plain) == 1 else plain
