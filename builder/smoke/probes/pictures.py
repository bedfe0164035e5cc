"""Pictures drawn from data, as PNG files in data: URLs; the same bytes everywhere.

Pixels are indices into a palette of at most 16 colours. Small pictures are stored rather than
compressed, since what a compressor makes of them depends on its version.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, model_validator

from builder.model import Frozen

Colour = Annotated[str, Field(pattern=r"^#[0-9a-f]{6}$")]
Point = tuple[float, float]
BLOCK = 65535  # bytes of a stored block of deflate (RFC 1951)
STORED = 1 << 20  # larger pictures are compressed
SIGNATURE = b"\x89PNG\r\n\x1a\n"


class Shape(Frozen):
    """A filled polygon, or a circle as x, y and radius; pixels, from the upper left corner."""

    colour: Colour
    polygon: tuple[Point, ...] = ()
    circle: tuple[float, float, float] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Shape:
        if (self.circle is None) == (len(self.polygon) < 3):
            raise ValueError("a shape is either a polygon of three points or more, or a circle")
        return self

    def spans(self, y: float) -> Iterator[tuple[float, float]]:
        """Yield the stretches of a line that lie inside."""
        if self.circle:
            centre, middle, radius = self.circle
            if abs(y - middle) < radius:
                half = (radius * radius - (y - middle) ** 2) ** 0.5
                yield centre - half, centre + half
            return
        pairs = zip(self.polygon, (*self.polygon[1:], self.polygon[0]), strict=True)
        cuts = sorted(x0 + (y - y0) * (x1 - x0) / (y1 - y0)
                      for (x0, y0), (x1, y1) in pairs if (y0 <= y) != (y1 <= y))
        yield from zip(cuts[::2], cuts[1::2], strict=True)


class Picture(Frozen):
    """A ground and what lies on it, each over the ones before."""

    width: Annotated[int, Field(ge=1)]
    height: Annotated[int, Field(ge=1)]
    ground: Colour
    shapes: Annotated[tuple[Shape, ...], Field(max_length=15)] = ()

    @property
    def depth(self) -> int:
        """Return the bits of a pixel."""
        return 4 if self.shapes else 1


def data_url(picture: Picture) -> str:
    """Return the picture as a PNG in a URL."""
    return "data:image/png;base64," + base64.b64encode(png(picture)).decode()


def png(picture: Picture) -> bytes:
    """Draw the picture."""
    header = struct.pack(">IIBBBBB", picture.width, picture.height, picture.depth, 3, 0, 0, 0)
    colours = [picture.ground, *(shape.colour for shape in picture.shapes)]
    palette = b"".join(bytes.fromhex(colour[1:]) for colour in colours)
    return SIGNATURE + b"".join(_chunk(name, data) for name, data in (
        (b"IHDR", header), (b"PLTE", palette), (b"IDAT", _deflated(picture)), (b"IEND", b"")))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _deflated(picture: Picture) -> bytes:
    size = picture.height * (1 + -(-picture.width * picture.depth // 8))
    if size > STORED:
        squeeze = zlib.compressobj(9)
        return b"".join([*map(squeeze.compress, _rows(picture)), squeeze.flush()])
    raw = b"".join(_rows(picture))
    blocks = [raw[at:at + BLOCK] for at in range(0, len(raw), BLOCK)]
    stored = [struct.pack("<BHH", number == len(blocks) - 1, len(block), len(block) ^ 0xFFFF)
              + block for number, block in enumerate(blocks)]
    return b"\x78\x01" + b"".join(stored) + struct.pack(">I", zlib.adler32(raw))


def _rows(picture: Picture) -> Iterator[bytes]:
    """Yield the lines: a zero for "not filtered", then the pixels, packed."""
    if not picture.shapes:
        yield from [bytes(1 + -(-picture.width // 8))] * picture.height
        return
    for y in range(picture.height):
        row = bytearray(picture.width + picture.width % 2)
        for index, shape in enumerate(picture.shapes, 1):
            for begin, end in shape.spans(y + 0.5):
                first, last = _inside(begin, picture.width), _inside(end, picture.width)
                row[first:last] = bytes([index]) * (last - first)
        yield b"\0" + bytes(left << 4 | right
                            for left, right in zip(row[::2], row[1::2], strict=True))


def _inside(x: float, width: int) -> int:
    """Return the first pixel whose middle lies right of x."""
    return min(max(round(x), 0), width)
