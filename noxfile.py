"""The front door: one session a verb of the command line, two for each image of the matrix.

All sessions share one environment. It is made once, and again when ``pyproject.toml`` changes, so a
session that only calls the tool starts at once. ``nox -l`` works with a broken matrix.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import nox

nox.options.sessions = ["lint", "tests"]

ROOT = Path(__file__).parent
ENVIRONMENT = ROOT / ".nox" / "sparkyard"
STAMP = ENVIRONMENT / "made-from"
BROWSERS = ("chromium", "google-chrome", "chromium-browser")
WORKFLOWS = ".github/workflows"
CHECKS = (  # of workflows: their schema, what is unsafe, what would fail when it runs; all offline
    ("check-jsonschema", "--builtin-schema", "vendor.github-workflows"),
    ("zizmor", "--offline", "--no-config", "--no-progress"),
    ("jactionlint", "--profile", "correctness", "--shellcheck="),
)
CALLER = "SPARKYARD_CALLER_FOLDER"  # from ./nox, for the command line alone: tests have folders
CALLED_FROM = os.environ.pop(CALLER, "")
INTERRUPT_S = 120.0  # a command that is interrupted first ends what it has started
CPU_IMAGE = "cpu-arm64" if platform.machine() in ("aarch64", "arm64") else "cpu"


def image_names() -> list[str]:
    """Return the image names of the matrix, found by pattern so that a broken matrix lists too."""
    try:
        text = (ROOT / "matrix.toml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found = re.findall(r'^\[images\."?([a-z0-9.-]+?)"?\]', text, flags=re.MULTILINE)
    return list(dict.fromkeys(found))


def run(session: nox.Session, program: str, *arguments: str,
        env: dict[str, str | None] | None = None) -> None:
    """Run a program of the shared environment; make the environment first where it is out of date.

    The stamp is written last, so an interrupted installation is done again.
    """
    recipe = sys.version.encode() + (ROOT / "pyproject.toml").read_bytes()
    wanted = hashlib.sha256(recipe).hexdigest()
    if not STAMP.exists() or STAMP.read_text(encoding="utf-8") != wanted:
        session.run(sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT), external=True)
        session.run(str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "-q",
                    "--disable-pip-version-check", "-e", f"{ROOT}[dev]", external=True)
        STAMP.write_text(wanted, encoding="utf-8")
    # On Ctrl-C nox would kill it after half a second: what it started would go on, uncleaned.
    session.run(str(ENVIRONMENT / "bin" / program), *arguments, external=True,
                interrupt_timeout=INTERRUPT_S, terminate_timeout=INTERRUPT_S, env=env)


def sparkyard(session: nox.Session, *arguments: str) -> None:
    """Run the command line of this checkout."""
    run(session, "sparkyard", *arguments, env={
        "SPARKYARD_PARENT": str(os.getpid()), **({CALLER: CALLED_FROM} if CALLED_FROM else {})})


def _verb(verb: str, help_text: str) -> Callable[[nox.Session], None]:
    def session(session: nox.Session) -> None:
        sparkyard(session, verb, *session.posargs)

    session.__doc__ = help_text
    return session


def _image_verb(verb: str, image: str) -> Callable[[nox.Session], None]:
    def session(session: nox.Session) -> None:
        sparkyard(session, verb, image, *session.posargs)

    session.__doc__ = f"{verb.capitalize()} the image {image} (-- --base B, another of its cells)."
    return session


for _name, _help in {
    "doctor": "Check whether this host is fit to serve a model (-- --recipe R).",
    "engine": "Set up Docker, buildx, arm64 emulation and a registry where they are missing.",
    "base": "Find, pull or make the base images (-- NAME --upgrade, --check).",
    "plan": "Show the cells, what is locked, and what a build would do (-- CELL… --json).",
    "lock": "Resolve cells into locks/ (-- CELL… --upgrade PKG, --check).",
    "fetch": "Download the locked wheels into the cache (-- CELL…).",
    "gate": "Judge wheels or an image without a GPU (-- CELL…, --image REF, --explain CODE).",
    "patch": "Show or renew what upstream patches do to each cell (-- status, -- refresh).",
    "wheels": "Compile what nobody publishes for the GPU (-- plan, build CELL, status, index).",
    "build": "Build the images of locked cells (-- CELL… --push).",
    "smoke": "Run an image and judge its answers (-- CELL --level 2).",
    "bisect": "Find the version of vLLM that broke a recipe (-- RECIPE --good V --bad V).",
    "pin": "Write the version that bisect found good into a recipe (-- RECIPE).",
    "bench": "Measure token rates (-- CELL --quick --baseline RECORD).",
    "report": "Show the records of smoke runs and benchmarks (-- RECORD… --output page.html).",
    "site": "Make the public page: which model runs on which image (-- --output DIR).",
    "push": "Push built cells under their immutable and -next tags (-- CELL…).",
    "sync": "Bring built images to other machines through ssh (-- CELL --to HOST…).",
    "promote": "Move tags to images that passed (-- CELL…, -- CELL --log).",
    "rollback": "Point a moving tag back at the last good image (-- CELL --reason WHY).",
    "verify": "Check an image in a registry against all that is said of it (-- CELL).",
    "diff": "Show what changes between two images (-- CELL:TAG CELL).",
    "sbom": "Show what an image holds, or write it for a scanner (-- CELL --output FILE).",
    "tags": "Show the images in the registry, or prune what nothing needs (-- CELL --prune).",
    "nightly": "Newest wheels, build, smoke test, push and promote, cell by cell (-- CELL…).",
    "diagnose": "Name the failure that a server's log shows (-- LOG).",
    "recipe": "List, show and check the recipes (-- list, -- show RECIPE, -- check).",
    "serve": "Serve a recipe in the background (-- RECIPE --port N --api-key-file FILE).",
    "status": "Show the servers that run, and whether they answer (-- --json).",
    "logs": "Show the log of a server (-- RECIPE -f).",
    "stop": "Stop a server and wait until its memory is free (-- RECIPE).",
    "switch": "Serve another recipe in the place of the one that is served (-- RECIPE).",
    "cache": "Show what the cache holds, or remove what nobody needs (-- show, -- prune).",
}.items():
    nox.session(_verb(_name, _help), name=_name, python=False, default=False)

for _image in image_names():
    for _name in ("build", "smoke"):
        nox.session(_image_verb(_name, _image), name=f"{_name}-{_image}", python=False,
                    default=False)


@nox.session(python=False, default=False)
def quickstart(session: nox.Session) -> None:
    """From a bare machine to a verdict: engine, base, CPU image, and the real server's answers."""
    sparkyard(session, "engine", "--yes")
    sparkyard(session, "base", "slim", "--platform", _native())
    sparkyard(session, "build", CPU_IMAGE)
    sparkyard(session, "smoke", CPU_IMAGE, "--level", "2", "--recipe", "tiny-gemma4",
              *session.posargs)


def _native() -> str:
    return "linux/arm64" if CPU_IMAGE == "cpu-arm64" else "linux/amd64"


def install_browser(session: nox.Session) -> None:
    """Install Chromium for the page tests where it is missing and this user may install packages.

    Elsewhere those tests are skipped and say so; in CI a missing browser fails.
    """
    present = any(map(shutil.which, BROWSERS)) or not shutil.which("apt-get")
    if present or not (os.geteuid() == 0 or "CI" in os.environ):
        return
    root = [] if os.geteuid() == 0 else ["sudo"]
    for words in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        session.run(*root, "apt-get", "-q", *words, external=True,
                    env={"DEBIAN_FRONTEND": "noninteractive"})


@nox.session(python=False)
def tests(session: nox.Session) -> None:
    """Run the unit and integration tests (-- pytest arguments); the page tests need a browser.

    Unit tests share nothing and use every core. Integration tests share the engine: they run in
    two lanes (``tests/integration/conftest.py``), those that start servers and the others.
    """
    install_browser(session)
    if session.posargs:
        named = any(Path(word.partition("::")[0]).exists() for word in session.posargs)
        run(session, "pytest", *([] if named else ["tests/unit", "tests/integration"]),
            *session.posargs)
        return
    run(session, "pytest", "tests/unit", "--numprocesses", "auto")
    run(session, "pytest", "tests/integration", "--numprocesses", "2", "--durations", "25")


@nox.session(python=False)
def lint(session: nox.Session) -> None:
    """Ruff, mypy, and three tools that read the workflows."""
    run(session, "ruff", "check", ".")
    run(session, "mypy")
    for program, *words in CHECKS:
        run(session, program, *words, *map(str, sorted((ROOT / WORKFLOWS).glob("*.yml"))))


@nox.session(python=False, default=False)
def propose(session: nox.Session) -> None:
    """Put changed locks on a branch and open a pull request (-- CELL…); needs gh.

    The push asks gh for a credential where git has none, so that no checkout needs to keep one.
    """
    cells = " ".join(session.posargs) or "all cells"
    branch = f"locks/{'-'.join(session.posargs) or 'all'}"
    changed = session.run("git", "status", "--porcelain", "locks", external=True, silent=True)
    if not str(changed).strip():
        session.log("no lock has changed")
        return
    session.run("git", "switch", "-C", branch, external=True)
    session.run("git", "add", "locks", external=True)
    session.run("git", "-c", "user.name=sparkyard", "-c", "user.email=sparkyard@localhost",
                "commit", "-m", f"Locks: newer wheels for {cells}", external=True)
    session.run("git", "-c", "credential.helper=!gh auth git-credential", "push", "--force",
                "origin", branch, external=True)
    session.run("gh", "pr", "create", "--head", branch, "--title", f"Locks: {cells}", "--body",
                "Made by the nightly run; the image built from it passed its smoke test.",
                external=True, success_codes=[0, 1])  # 1: the request is open already
