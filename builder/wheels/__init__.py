"""Stage wheels: what nobody publishes for the cell's GPU, compiled into the published wheel.

``wheels/<package>.toml`` says how (``recipe``); a cell's patches and the gate say what
(``decision``). One compile is an ``Order``; what comes of it is a ``Rebuilt`` (``order``). Only the
extension modules that have to change are compiled, and nothing but the wheel enters an image.
"""
