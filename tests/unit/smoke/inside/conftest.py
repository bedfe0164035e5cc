"""The scripts of ``smoke/inside`` import each other as top-level modules, as in a container."""

from __future__ import annotations

import sys
from pathlib import Path

from builder.smoke import levels
from builder.smoke.probes import degenerate

sys.path += [str(Path(levels.__file__).parent / "inside"),
             str(Path(degenerate.__file__).parent)]  # copied beside them
