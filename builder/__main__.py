"""``sparkyard`` and ``python -m builder``."""

from __future__ import annotations

import signal
import sys

from builder.cli import run


def main() -> int:
    """Run the command line of this process and return its exit code.

    A request to end (SIGTERM) cleans up as Ctrl-C does.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
