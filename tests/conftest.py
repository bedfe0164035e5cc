"""What holds for all tests: programs that they start hear signals, and chance decides nothing.

A shell lets its background jobs ignore Ctrl-C, nohup lets them ignore a closed terminal, and
programs hand that on to what they start. The tests that interrupt one would then wait in vain.

With hypothesis no example has a time limit.
A busy machine is no failure. A test that fails once in a while would be one for whoever comes next:
so each run has the same examples, but for a longer one, which looks for new ones
(``SPARKYARD_FUZZ_EXAMPLES``, see ``tests/unit/damaged_bytes.py``).
"""

from __future__ import annotations

import os
import signal

from hypothesis import settings

settings.register_profile("sparkyard", deadline=None,
                          derandomize="SPARKYARD_FUZZ_EXAMPLES" not in os.environ)
settings.load_profile("sparkyard")


for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        # Nothing happens here, as before, and what is started has the default again.
        signal.signal(_number, lambda *_: None)
