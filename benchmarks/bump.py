"""What an update costs: `python -m benchmarks.bump OLD NEW`, two pushed images of one cell.

The engine must have NEW, so that its layers can be told apart: large wheels have one each, the
last two are the shared small wheels and the environment.
"""

from __future__ import annotations

import argparse

from builder.engine.client import Engine, RemoteLayer
from builder.errors import EngineError

REST = 2  # the shared layer and the environment, at the top


def layers(engine: Engine, reference: str) -> tuple[RemoteLayer, ...]:
    """Return an image's compressed layers; raises EngineError where it was never pushed."""
    found = engine.remote_layers(reference)
    if found is None:
        raise EngineError("the registry does not have it", where=reference,
                          next_step="push it first: `sparkyard push CELL`")
    return found


def main() -> None:
    """Print the bytes beside their bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", help="a pushed image")
    parser.add_argument("new", help="the image that replaces it")
    options = parser.parse_args()
    engine = Engine.connect()
    old, new = (layers(engine, reference) for reference in (options.old, options.new))
    missing = {layer.digest for layer in new} - {layer.digest for layer in old}
    large = sum(layer.size for layer in new[:-REST] if layer.digest in missing)
    rest = sum(layer.size for layer in new[-REST:])
    pulled = sum(layer.size for layer in new if layer.digest in missing)
    whole = sum(layer.size for layer in new)
    print(f"update: {pulled / 1e6:.0f} MB in {len(missing)} of {len(new)} layers, of "
          f"{whole / 1e6:.0f} MB ({pulled / whole:.2f} of the image)")
    print(f"changed large wheels {large / 1e6:.0f} MB, the small rest {rest / 1e6:.0f} MB; ratio "
          f"to 1.05 x the one plus the other: {pulled / (1.05 * large + rest):.2f} (bar: 1)")


if __name__ == "__main__":
    main()
