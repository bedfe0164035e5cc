"""What ``serve`` and ``switch`` share: their options, and the launch that these describe."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from builder import console
from builder import labels as label
from builder.commands.option_types import user_path, whole_number
from builder.config_file import suggestion
from builder.engine.client import Engine, ImageFacts
from builder.errors import EngineError, LockError, UsageError, command
from builder.image import local_name
from builder.locking.lock import Lock, load_for
from builder.matrix.cells import Cell, near
from builder.patches.revision import as_patched
from builder.recipes.check import Vllms, check
from builder.recipes.compatibility import check_pin
from builder.recipes.exports.service import LOOPBACK, PUBLIC, checked_address
from builder.recipes.launch import PORT
from builder.recipes.load import load_recipe
from builder.recipes.models import Recipe
from builder.recipes.rules import Severity
from builder.registry.reference import check_reference
from builder.serve.api_key import check_file
from builder.serve.boot import Outcome
from builder.serve.launch import Asked, Launch, caller, plan_launch
from builder.serve.servers import Server
from builder.store.content_store import Store
from builder.workspace import Workspace

HIGHEST_PORT = 65535
CONFIG = "config.json"
LOCK_DIGITS = 12


def add_launch_options(parser: argparse.ArgumentParser) -> None:
    """Add the recipe and everything that decides how its server runs."""
    parser.add_argument("recipe", metavar="RECIPE", help="the name of a file in recipes/, no .toml")
    parser.add_argument("--cell", metavar="CELL",
                        help="the cell to run on (default: the first locked cell of its image)")
    parser.add_argument("--image", metavar="REF", help="serve with this image, not the cell's own")
    parser.add_argument("--model", type=user_path, metavar="DIR",
                        help="serve the checkpoint in this folder, not the recipe's")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--host", metavar="ADDRESS",
                       help=f"the address of this machine to listen on (default: {LOOPBACK})")
    where.add_argument("--public", action="store_const", dest="host", const=PUBLIC,
                       help="listen on all addresses")
    parser.add_argument("--port", type=whole_number(1, HIGHEST_PORT), metavar="N",
                        help=f"the port of this machine (default: {PORT})")
    parser.add_argument("--api-key-file", type=user_path, metavar="FILE",
                        help="a file with one line, the API key that clients have to send")
    parser.add_argument("--hf-token-file", type=user_path, metavar="FILE",
                        help="a file with a token of the Hugging Face hub, for a download "
                             "(default: the token of your own hub folder)")
    parser.add_argument("--restart", action="store_true",
                        help="start the server again after a failure or a reboot, until it is "
                             "stopped")
    parser.add_argument("--force", action="store_true",
                        help="start although the recipe check found errors")


def prepare(workspace: Workspace, engine: Engine, options: argparse.Namespace,
            old: Server | None = None) -> Launch:
    """Check everything that can be checked before a start, and decide the launch.

    What is not asked for is as it was with the server ``old``. Raises UsageError, LockError or
    EngineError.
    """
    recipe = load_recipe(workspace.root, options.recipe)
    cell, lock = locked_cell(workspace, recipe, options.cell, engine.info.platform)
    wanted = asked(options, recipe, old)
    check_pin(recipe, cell, lock)
    console.info(f"checking the recipe {recipe.name} …")
    check_recipe(workspace, recipe, cell, lock, force=options.force)
    reference, image = find_image(workspace, engine, cell, lock, options.image)
    wheels = lock if options.image else as_patched(lock, image.labels)
    return plan_launch(
        workspace, recipe, cell, image, reference, wanted, user=caller(),
        versions={} if options.image else {wheel.name: wheel.version for wheel in wheels.wheels},
        emulated=cell.platform != engine.info.platform)


def asked(options: argparse.Namespace, recipe: Recipe, old: Server | None) -> Asked:
    """Return what the options ask for; raises UsageError for what can be seen to be unusable."""
    key, token, model = options.api_key_file, options.hf_token_file, options.model
    if options.image:
        check_reference(options.image, "--image")
    key = key or (old.key_file if old else None)
    if key:
        check_file(key)
    if token and not (token.is_file() and token.stat().st_size):
        raise UsageError("there is no such file" if not token.exists() else "the file is empty"
                         if token.is_file() else "it is a folder, device or pipe, and no file",
                         where=f"--hf-token-file {token}",
                         next_step="name a file that holds a token, or leave the option out")
    if model and not (model.is_dir() and recipe.model.path):
        raise UsageError("there is no such folder" if recipe.model.path else
                         f"the recipe {recipe.name} serves a repository of a model hub, so that no "
                         "folder can take its place", where=f"--model {model}",
                         next_step="name a folder with a checkpoint, or leave --model out")
    if model and not (model / CONFIG).is_file():
        raise UsageError(f"the folder has no {CONFIG}, so that it is no checkpoint that vLLM could "
                         "load", where=f"--model {model}",
                         next_step=f"name the folder that holds {CONFIG} and the weights")
    host = checked_address(options.host or (old.host if old else LOOPBACK))
    return Asked(host=host,
                 port=options.port or (old.port if old else PORT),
                 key_file=key.absolute() if key else None, token_file=token,
                 restart=options.restart or bool(old and old.restart), model=model)


def locked_cell(workspace: Workspace, recipe: Recipe, wanted: str | None, platform: str
                ) -> tuple[Cell, Lock]:
    """Return the cell that is asked for, else the image's first locked one, this machine's first.

    Raises UsageError for an unknown cell, LockError where none has a good lock.
    """
    cells = [cell for cell in workspace.cells
             if (cell.id == wanted if wanted else cell.image == recipe.image)]
    if not cells:
        if wanted:
            raise UsageError(f'there is no cell "{wanted}"', where="--cell",
                             next_step=near(wanted, [cell.id for cell in workspace.cells]))
        raise UsageError(f'the matrix has no image "{recipe.image}"',
                         where=f"recipes/{recipe.name}.toml: image",
                         next_step=suggestion(recipe.image, list(workspace.matrix.images)))
    problems: list[LockError] = []
    for cell in sorted(cells, key=lambda cell: cell.platform != platform):
        try:
            return cell, load_for(cell, workspace.locks)
        except LockError as error:
            problems.append(error)
    raise problems[0]


def check_recipe(workspace: Workspace, recipe: Recipe, cell: Cell, lock: Lock, *, force: bool
                 ) -> None:
    """Judge the recipe before anything starts; raises UsageError where it has an error."""
    findings = check(recipe, cell, lock, Vllms(Store(workspace.cache), [lock]))
    for finding in findings:
        console.warn(f"recipe check ({finding.check}): {finding.what}")
    wrong = [finding for finding in findings if finding.severity is Severity.ERROR]
    if not wrong or force:
        return
    unread = next((finding.missing for finding in wrong if finding.missing), None)
    if unread and len(wrong) == 1:
        raise UsageError(f"the recipe {recipe.name} could not be checked whole",
                         where=f"recipes/{recipe.name}.toml",
                         next_step=f"run {command(*unread)}; --force starts without the check")
    explained = command("recipe", "check", recipe.name, "--cell", cell.id)
    raise UsageError(
        f"the recipe check found {len(wrong)} error{'' if len(wrong) == 1 else 's'} in "
        f"{recipe.name}", where=f"recipes/{recipe.name}.toml",
        next_step=f"{explained} explains; --force starts all the same")


def find_image(workspace: Workspace, engine: Engine, cell: Cell, lock: Lock, asked_for: str | None
               ) -> tuple[str, ImageFacts]:
    """Return the image to serve, with its name: the one asked for, else the cell's own.

    The cell's name moves with each build, and may be that of another checkout: then the image of
    this lock is served by its immutable tag, where the engine has it.
    """
    if asked_for:
        return asked_for, local_image(engine, asked_for, lock, foreign=True)
    newest = local_name(workspace.registry, cell)
    try:
        return newest, local_image(engine, newest, lock, foreign=False)
    except (EngineError, LockError):
        fixed = engine.labelled(newest.rpartition(":")[0], label.LOCK, lock.digest)
        found = engine.inspect(fixed[0]) if fixed else None
        if found is None:
            raise
    console.info(f"{newest} is not the image of the current lock: serving {fixed[0]}")
    return fixed[0], found


def local_image(engine: Engine, reference: str, lock: Lock, *, foreign: bool) -> ImageFacts:
    """Return the engine's image of that name, which is of this lock unless it is ``foreign``."""
    image = engine.inspect(reference)
    build = f"run {command('build', lock.cell)}"
    if image is None:
        raise EngineError("the engine has no such image", where=reference,
                          next_step="pull or load it, or leave --image out" if foreign else build)
    if not foreign and image.labels.get(label.LOCK) != lock.digest:
        raise LockError(f"the image {built_from(image)}; the current lock of {lock.cell} is "
                        f"{short(lock.digest)}", where=reference,
                        next_step=f"{build}, or serve the image as it is with --image REF")
    return image


def built_from(image: ImageFacts) -> str:
    """Return which lock an image was built from, as far as its labels say."""
    digest = image.labels.get(label.LOCK)
    return f"was built from the lock {short(digest)}" if digest else "names no lock"


def short(digest: str) -> str:
    """Return the first digits of a lock's digest."""
    return digest.removeprefix("sha256:")[:LOCK_DIGITS]


def explain_failure(name: str, outcome: Outcome) -> None:
    """Say why a server did not become ready, with the known failure and where its log is."""
    console.warn(f"{name} did not become ready: {outcome.why}")
    for known in outcome.known:
        console.info(known)
    if outcome.log:
        console.info(f"log: {outcome.log}")


def tell(lines: Sequence[str]) -> None:
    """Print what a command was asked for."""
    console.out("\n".join(lines))
