"""Random pictures and the battery's questions on them, with the answers that are right.

The embedded model is trained on such pictures, drawn from other seeds than those asked here:
sizes, places, angles and shades vary without steps, so that no picture comes twice.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass

from builder.smoke.probes.pictures import Picture, Shape

COLOURS = {"red": "#d01818", "green": "#18a028", "blue": "#1838d0", "yellow": "#f0d818",
           "purple": "#8820a0", "orange": "#f08018"}
GROUNDS = {"white": "#f8f8f8", "black": "#101010", "grey": "#909090", "pink": "#f8b4d0"}
FORMS = ("circle", "square", "triangle")
THINGS = ("house", "tree", "sun")
SIZES = (128, 160, 192, 224, 256, 320)
ASK_COLOUR = "What colour is the shape in this picture?"
ASK_GROUND = "What colour is the background of this picture?"
ASK_FORM = "Which shape is in this picture?"
ASK_THREE = "Name the colour and the shape in each of these three pictures, in their order."
ASK_SCENE = "What is this a picture of? List everything you see."


@dataclass(frozen=True)
class Seen:
    """A picture and what is in it: one shape on a ground, or the things of a landscape."""

    picture: Picture
    form: str = ""
    colour: str = ""
    ground: str = ""
    things: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """Pictures, what is asked about them, the whole right answer, and what makes one right."""

    kind: str
    shown: tuple[Seen, ...]
    text: str
    answer: str
    order: tuple[str, ...]
    lacks: tuple[str, ...] = ()


def shape(chance: random.Random) -> Seen:
    """Draw one shape on a ground."""
    colour, ground = chance.choice(sorted(COLOURS)), chance.choice(sorted(GROUNDS))
    form, size = chance.choice(FORMS), chance.choice(SIZES)
    radius = chance.uniform(0.24, 0.4)
    x, y = (chance.uniform(radius + 0.02, 0.98 - radius) * size for _ in "xy")
    drawn = _form(form, x, y, radius * size, _shade(COLOURS[colour], chance),
                  chance.uniform(-0.15, 0.15))
    picture = Picture(width=size, height=size, ground=_shade(GROUNDS[ground], chance),
                      shapes=(drawn,))
    return Seen(picture, form, colour, ground)


def _form(form: str, x: float, y: float, radius: float, colour: str, angle: float) -> Shape:
    if form == "circle":
        return Shape(colour=colour, circle=(x, y, radius))
    corners = 4 if form == "square" else 3
    first = angle - math.pi / 2 + (math.pi / 4 if form == "square" else 0.0)
    turns = (first + 2 * math.pi * corner / corners for corner in range(corners))
    return Shape(colour=colour, polygon=tuple((x + radius * math.cos(turn),
                                               y + radius * math.sin(turn)) for turn in turns))


def landscape(chance: random.Random) -> Seen:
    """Draw sky and grass, and of house, tree and sun each or not, at least one."""
    size = chance.choice(SIZES)
    things = tuple(thing for thing in THINGS if chance.random() < 0.6) or (chance.choice(THINGS),)
    line = chance.uniform(0.62, 0.76)
    shapes = [_box(_shade("#3a9d3a", chance), 0, line, 1, 1)]
    house_left = chance.random() < 0.5
    if "sun" in things:
        spot = (chance.uniform(0.12, 0.88), chance.uniform(0.1, 0.2), chance.uniform(0.07, 0.11))
        shapes.append(Shape(colour=_shade("#ffd700", chance), circle=spot))
    if "house" in things:
        shapes += _house(chance, 0.06 if house_left else 0.5, line)
    if "tree" in things:
        shapes += _tree(chance, 0.76 if house_left else 0.24, line)
    picture = Picture(width=size, height=size, ground=_shade("#87ceeb", chance),
                      shapes=tuple(_scaled(each, size) for each in shapes))
    return Seen(picture, things=things)


def _house(chance: random.Random, left: float, line: float) -> list[Shape]:
    wide, high = chance.uniform(0.32, 0.42), chance.uniform(0.26, 0.36)
    top, base = line + 0.08 - high, line + 0.08
    roof = ((left - 0.04, top), (left + wide + 0.04, top),
            (left + wide / 2, top - chance.uniform(0.14, 0.22)))
    window = _shade("#add8e6", chance)
    return [_box(_shade("#c83232", chance), left, top, left + wide, base),
            Shape(colour=_shade("#8b1a1a", chance), polygon=roof),
            _box(window, left + 0.05, top + 0.06, left + 0.13, top + 0.15),
            _box(window, left + wide - 0.13, top + 0.06, left + wide - 0.05, top + 0.15),
            _box("#202020", left + wide / 2 - 0.04, base - 0.16, left + wide / 2 + 0.04, base)]


def _tree(chance: random.Random, middle: float, line: float) -> list[Shape]:
    middle += chance.uniform(-0.05, 0.05)
    top = line - chance.uniform(0.18, 0.24)
    return [_box(_shade("#7a4a21", chance), middle - 0.025, top, middle + 0.025, line + 0.1),
            Shape(colour=_shade("#1f7a1f", chance),
                  circle=(middle, top, chance.uniform(0.11, 0.15)))]


def _box(colour: str, left: float, top: float, right: float, base: float) -> Shape:
    return Shape(colour=colour,
                 polygon=((left, top), (right, top), (right, base), (left, base)))


def _scaled(each: Shape, size: int) -> Shape:
    """Return a shape of shares of the picture in pixels."""
    if each.circle:
        x, y, radius = each.circle
        return Shape(colour=each.colour, circle=(x * size, y * size, radius * size))
    return Shape(colour=each.colour,
                 polygon=tuple((x * size, y * size) for x, y in each.polygon))


def _shade(colour: str, chance: random.Random) -> str:
    """Return a colour close by."""
    parts = (int(colour[at:at + 2], 16) + chance.randint(-14, 14) for at in (1, 3, 5))
    return "#" + "".join(f"{min(max(part, 0), 255):02x}" for part in parts)


def questions(chance: random.Random) -> list[Question]:
    """Draw one question of each kind, each on pictures of its own."""
    one, two, three, scene = shape(chance), shape(chance), shape(chance), landscape(chance)
    return [colour_question(one), ground_question(two), form_question(three),
            three_question(tuple(shape(chance) for _ in range(3))), scene_question(scene)]


def colour_question(seen: Seen) -> Question:
    """Ask for the colour of the shape."""
    return Question("colour", (seen,), ASK_COLOUR, f"The shape is {seen.colour}.",
                    (seen.colour,), _others(COLOURS, seen.colour))


def ground_question(seen: Seen) -> Question:
    """Ask for the colour of the background."""
    return Question("background", (seen,), ASK_GROUND, f"The background is {seen.ground}.",
                    (seen.ground,), _others(GROUNDS, seen.ground))


def form_question(seen: Seen) -> Question:
    """Ask for the shape."""
    return Question("shape", (seen,), ASK_FORM, f"It is a {seen.form}.", (seen.form,),
                    _others(FORMS, seen.form))


def three_question(shown: tuple[Seen, ...]) -> Question:
    """Ask for colours and shapes in the order of the pictures."""
    named = [f"a {seen.colour} {seen.form}" for seen in shown]
    answer = " ".join(f"{number}: {name}." for number, name in enumerate(named, 1))
    return Question("three pictures, in order", shown, ASK_THREE, answer,
                    tuple(f"{number}: {name}." for number, name in enumerate(named, 1)))


def scene_question(seen: Seen) -> Question:
    """Ask for everything in a landscape."""
    answer = "I see the sky, the grass" + "".join(
        f", {'the' if thing == 'sun' else 'a'} {thing}" for thing in seen.things) + "."
    return Question("scene", (seen,), ASK_SCENE, answer, ("sky", *seen.things),
                    tuple(thing for thing in THINGS if thing not in seen.things))


def _others(names: Iterable[str], right: str) -> tuple[str, ...]:
    return tuple(name for name in names if name != right)
