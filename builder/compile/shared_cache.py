"""A cache of objects that several machines share: ``SPARKYARD_CCACHE_REMOTE``, one setting.

It is ccache's own remote storage: any HTTP server that takes GET and PUT, or Redis. The address may
hold a password, so it goes into the build as a secret and into no log. Only a compile with it has a
network; without it there is none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from builder.errors import UsageError

VARIABLE = "SPARKYARD_CCACHE_REMOTE"
SECRET = "ccache-remote"  # noqa: S105 - its name; the scripts in the build read it under this name
SCHEMES = ("http", "redis")  # what ccache 4.7 speaks; it has no TLS


def remote(environment: Mapping[str, str] = os.environ) -> bool:
    """Say whether a shared cache is set; raises UsageError where ccache cannot use the address."""
    address = environment.get(VARIABLE, "")
    if not address:
        return False
    try:
        parts = urlsplit(address)
        usable = parts.scheme in SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0
        # A password without a user stands first for ccache, which else fails without a word.
        usable = usable and not (parts.password is not None and not parts.username)
    except ValueError:
        usable = False
    if not usable or any(sign.isspace() or sign == "|" for sign in address):
        raise UsageError("the shared cache of objects cannot be used", where=VARIABLE,
                         next_step="name it as http://HOST:PORT/FOLDER or "
                         "redis://[[USER:]PASSWORD@]HOST:PORT, or unset it")
    return True
