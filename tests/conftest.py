"""What holds for tests with hypothesis: no example has a time limit, and chance decides nothing.

A busy machine is no failure. A test that fails once in a while would be one for whoever comes next:
so each run has the same examples, but for a longer one, which looks for new ones
(``SPARKYARD_FUZZ_EXAMPLES``, see ``tests/unit/damaged_bytes.py``).
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("sparkyard", deadline=None,
                          derandomize="SPARKYARD_FUZZ_EXAMPLES" not in os.environ)
settings.load_profile("sparkyard")
