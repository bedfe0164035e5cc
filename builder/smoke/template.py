"""The chat template that a server uses, compared with the digest that its recipe states.

Copies in quantized repositories go stale: the server boots and answers with an old template.
"""

from __future__ import annotations

import json
from pathlib import Path

from builder.engine.client import Container
from builder.errors import UsageError
from builder.process import CommandError
from builder.recipes.launch import template_steps
from builder.recipes.models import Recipe
from builder.record.check import Check, Status

NAME = "chat template"
TEMPLATE = "/chat_template.jinja"  # in the container; copied, so no folder of its own
WITHIN_S = 120.0  # it reads three small files, on a machine that may be busy
SCRIPT = Path(__file__).parent / "inside" / "template.py"


def template_copies(recipe: Recipe) -> tuple[tuple[Path, str], ...]:
    """Return the template to copy in, where the recipe replaces the repository's own.

    It lies where the command that `recipe` prints expects it; raises UsageError where it does not.
    """
    steps = template_steps(recipe)
    if not steps:
        return ()
    file = Path.cwd() / "chat_template.jinja"
    if not file.is_file():
        raise UsageError(f"the recipe {recipe.name} replaces the model's chat template, and the "
                         "file with it is not here", where=str(file),
                         next_step=f"download it: {steps[0]}")
    return ((file, TEMPLATE),)


def template_check(box: Container, recipe: Recipe, model: str, patience: float = 1.0) -> Check:
    """Read the template in the container; ``model`` is what its server was told to load.

    ``patience`` multiplies the time that this may take.
    """
    stated = recipe.chat_template
    if stated is None:
        return Check(check=NAME, status=Status.NOT_APPLICABLE, detail="the recipe states none")
    revision = recipe.model.revision if recipe.model.repository else ""
    try:
        answer = box.exec(["python", "-", model, revision, TEMPLATE if stated.replace else ""],
                          stdin=SCRIPT.read_bytes(), timeout=WITHIN_S * patience)
    except CommandError as error:
        return _unreadable(error.what)
    try:
        template = json.loads(answer.stdout.strip().rpartition("\n")[2])
        where, digests = str(template["where"]), [str(digest) for digest in template["digests"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return _unreadable(answer.stderr.strip()[-300:] or "the script in the container answered "
                           f"nothing (status {answer.returncode})")
    return judge(where, digests, stated.sha256, stated.as_of)


def _unreadable(why: str) -> Check:
    return Check(check=NAME, status=Status.FAIL, detail=f"it cannot be read: {why}")


def judge(where: str, digests: list[str], stated: str, as_of: str) -> Check:
    """Compare; a template in a JSON file has two digests, with its last newline and without."""
    if not where:
        return Check(check=NAME, status=Status.FAIL, detail="the model brings none")
    good = stated in digests
    digest = digests[0][:12] if digests else "none"
    wrong = f"is another one ({digest}…) than the recipe's of {as_of} ({stated[:12]}…)"
    return Check(check=NAME, status=Status.PASS if good else Status.FAIL,
                 detail=f"{where} {f'has the digest {stated[:12]}…' if good else wrong}")
