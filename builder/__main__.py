"""``sparkyard`` and ``python -m builder``."""

from __future__ import annotations

import sys

from builder.cli import run


def main() -> int:
    """Run the command line of this process and return its exit code."""
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
