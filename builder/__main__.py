"""``sparkyard`` and ``python -m builder``."""

from __future__ import annotations

import io
import logging
import signal
import sys
import warnings

from builder.errors import INTERRUPTED_EXIT_CODE


def main() -> int:
    """Run the command line of this process and return its exit code.

    A request to end (SIGTERM) cleans up as Ctrl-C does. A character that the terminal's encoding
    lacks is written as an escape, and never ends the program. Only we speak on the terminal.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger().addHandler(logging.NullHandler())  # or libraries print tracebacks
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # of libraries, and of foreign sources that are parsed
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        from builder.cli import run  # here, as Ctrl-C may come while modules load

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT_CODE


if __name__ == "__main__":
    sys.exit(main())
