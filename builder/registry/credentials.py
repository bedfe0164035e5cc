"""The user's login to a registry, as ``docker login`` keeps it. It is sent, and never shown."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder import process
from builder.errors import SparkyardError
from builder.limits import SETTINGS_BYTES, read_file

HELPER_S = 30.0
_HELPER = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Login:
    """A user and password, or an identity token; ``repr`` shows neither."""

    user: str = field(repr=False)
    secret: str = field(repr=False)

    @property
    def is_token(self) -> bool:
        """Say whether the secret is an identity token, which is exchanged for access tokens."""
        return self.user == "<token>"

    @property
    def basic(self) -> str:
        """Return the value of an ``Authorization`` header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.secret}".encode()).decode()


def find_login(names: Sequence[str]) -> Login | None:
    """Return the login kept under one of ``names``; None where there is none to be read."""
    config = _config()
    helpers = config.get("credHelpers")
    helpers = helpers if isinstance(helpers, dict) else {}
    for name in names:
        helper = helpers.get(name) or config.get("credsStore")
        login = _from_helper(str(helper), name) if helper else None
        login = login or _from_file(config, name)
        if login is not None:
            return login
    return None


def _config() -> Mapping[str, Any]:
    folder = os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker"
    try:
        config = json.loads(read_file(Path(folder, "config.json"), SETTINGS_BYTES,
                                      "configuration of docker"))
    except (OSError, ValueError, RecursionError, SparkyardError):
        return {}  # as where docker has no login: the registry says whether it needs one
    return config if isinstance(config, dict) else {}


def _from_file(config: Mapping[str, Any], name: str) -> Login | None:
    auths = config.get("auths")
    entry = auths.get(name) if isinstance(auths, dict) else None
    if not isinstance(entry, dict):
        return None
    if entry.get("identitytoken"):
        return Login("<token>", str(entry["identitytoken"]))
    try:
        user, _, secret = base64.b64decode(str(entry.get("auth", ""))).decode().partition(":")
    except ValueError:
        return None
    return Login(user, secret) if user and secret else None


def _from_helper(helper: str, name: str) -> Login | None:
    """Ask docker's credential helper, a program of the user's own."""
    if not _HELPER.fullmatch(helper):
        return None
    try:
        answer = process.run([f"docker-credential-{helper}", "get"], stdin=name.encode(),
                             check=False, timeout=HELPER_S)
        login = json.loads(answer.stdout)
        return Login(str(login["Username"]), str(login["Secret"]))
    except (SparkyardError, OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
