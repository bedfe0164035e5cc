"""Pictures drawn from data: right pixels, the same bytes everywhere, and readable by others."""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Any

import pytest

from builder.smoke.probes.cases import Battery, battery
from builder.smoke.probes.pictures import Picture, png

PICTURES = battery().pictures
DIGESTS = {
    "house": "5b4a18cffb4a9236",
    "red circle": "ded6336633f45007",
    "blue square": "b7d12c8195fb8836",
    "green triangle": "5dbc28af2107d30d",
    "purple triangle": "29b9054eae0dfe4b",
    "orange square": "9eb26c79385ca191",
}


def chunks(data: bytes) -> dict[bytes, bytes]:
    """Read a PNG as its specification says, checksums and all."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    found, at = {}, 8
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at:at + 8])
        found[name] = data[at + 8:at + 8 + size]
        check, = struct.unpack(">I", data[at + 8 + size:at + 12 + size])
        assert check == zlib.crc32(name + found[name])
        at += 12 + size
    assert list(found) == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    return found


def pixel(data: bytes, x: int, y: int) -> str:
    """Return the colour of one pixel."""
    part = chunks(data)
    width, height, depth, kind, *rest = struct.unpack(">IIBBBBB", part[b"IHDR"])
    assert (kind, rest) == (3, [0, 0, 0])
    line = 1 + -(-width * depth // 8)
    raw = zlib.decompress(part[b"IDAT"])
    assert len(raw) == line * height
    assert raw[y * line] == 0
    byte = raw[y * line + 1 + x * depth // 8]
    index = (byte >> (8 - depth - x * depth % 8)) & ((1 << depth) - 1)
    return "#" + part[b"PLTE"][3 * index:3 * index + 3].hex()


@pytest.mark.parametrize(("name", "place", "colour"), [
    ("house", (5, 5), "#87ceeb"), ("house", (265, 55), "#ffd700"), ("house", (265, 20), "#87ceeb"),
    ("house", (70, 220), "#c83232"), ("house", (120, 140), "#8b1a1a"),
    ("house", (90, 180), "#add8e6"), ("house", (120, 240), "#202020"),
    ("house", (10, 310), "#3a9d3a"), ("house", (248, 250), "#7a4a21"),
    ("house", (248, 165), "#1f7a1f"), ("house", (319, 319), "#3a9d3a"),
    ("red circle", (112, 112), "#d01010"), ("red circle", (0, 0), "#ffffff"),
    ("red circle", (45, 112), "#d01010"), ("red circle", (40, 112), "#ffffff"),
    ("blue square", (54, 54), "#1030d0"), ("blue square", (53, 54), "#ffffff"),
    ("blue square", (169, 169), "#1030d0"), ("blue square", (170, 169), "#ffffff"),
    ("green triangle", (112, 120), "#10a020"), ("green triangle", (30, 60), "#ffffff"),
])
def test_what_is_drawn_is_there(name: str, place: tuple[int, int], colour: str) -> None:
    assert pixel(png(PICTURES[name]), *place) == colour


def test_the_bytes_are_the_same_everywhere() -> None:
    """Known digests: another machine, another zlib, the same request."""
    digests = {name: hashlib.sha256(png(picture)).hexdigest()[:16]
               for name, picture in PICTURES.items() if picture.shapes}
    assert digests == DIGESTS


def test_a_too_large_picture_travels_in_few_bytes() -> None:
    picture = PICTURES["12,000 by 12,000"]
    data = png(picture)
    assert len(data) < 100_000
    assert picture.width * picture.height < 178_956_970  # beyond it Pillow calls it an attack
    assert pixel(data, 11_999, 11_999) == "#ffffff"


@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 9])
def test_odd_widths(width: int) -> None:
    shape = {"colour": "#0000ff", "polygon": [[0, 0], [width, 0], [width, 2], [0, 2]]}
    for shapes in ([], [shape]):
        data = png(Picture(width=width, height=2, ground="#00ff00", shapes=shapes))
        assert pixel(data, width - 1, 1) == ("#0000ff" if shapes else "#00ff00")


@pytest.mark.parametrize(("picture", "words"), [
    ({"ground": "green"}, "ground"),
    ({"shapes": [{"colour": "#000000"}]}, "either a polygon"),
    ({"shapes": [{"colour": "#000000", "circle": [1, 1, 1], "polygon": [[0, 0], [1, 0], [1, 1]]}]},
     "either a polygon"),
    ({"shapes": [{"colour": "#000000", "circle": [1, 1, 1]}] * 16}, "at most 15")])
def test_a_picture_that_cannot_be_drawn_is_refused(picture: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Picture.model_validate({"width": 8, "height": 8, "ground": "#ffffff", **picture})


def test_a_case_cannot_show_what_is_not_there() -> None:
    part = {"type": "image_url", "image_url": {"url": "picture:castle"}}
    case = {"name": "x", "kind": "answer", "tools": ["hammer"],
            "messages": [{"role": "user", "content": [part]}]}
    with pytest.raises(ValueError, match="x: there is no castle, hammer"):
        Battery.model_validate({"tools": {}, "pictures": {}, "cases": [case]})
