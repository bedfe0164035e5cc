"""What a record says of a run before it begins: image, lock, recipe, model and machine."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path

from builder.doctor.state import state_of_this_host
from builder.engine.client import ImageFacts
from builder.files import sha256_file
from builder.recipes.load import FOLDER
from builder.recipes.models import Recipe
from builder.record.host_facts import host_facts
from builder.record.models import ModelUsed, Record, now
from builder.smoke.models import Run


def start_record(run: Run) -> Record:
    """Return the record of a run that begins now; nothing is checked and no GPU is seen yet.

    The doctor's facts are kept where the engine runs on this machine.
    """
    root, recipe = run.workspace.root, run.recipe
    here = run.engine.info.kernel == platform.release()
    return Record(
        state="running", cell=run.cell.id, level=run.level, image=run.reference,
        image_id=run.image.id, image_digest=registry_digest(run.image, run.reference),
        labels=dict(run.image.labels), lock=run.lock.digest, recipe=recipe.name,
        recipe_digest=recipe_digest(root, recipe), model=model_used(recipe, run.model, root),
        execution="emulated" if run.emulated else "native",
        host=host_facts(run.engine.info),
        host_state=state_of_this_host(run.workspace, recipe) if here else None,
        started=now(), seconds=0.0, phases={}, checks=(), log="")


def recipe_digest(root: Path, recipe: Recipe) -> str:
    """Return the digest of the recipe's file."""
    return file_digest(root / FOLDER / f"{recipe.name}.toml")


def registry_digest(image: ImageFacts, reference: str) -> str:
    """Return the digest under which a registry has the image; empty where none was asked yet.

    A name may hold a port: only a colon after the last slash begins a tag.
    """
    folder, slash, name = reference.partition("@")[0].rpartition("/")
    repository = f"{folder}{slash}{name.partition(':')[0]}"
    digests = dict(known.split("@", 1) for known in image.repo_digests if "@" in known)
    return digests.get(repository, "")


def model_used(recipe: Recipe, folder: Path | None, root: Path) -> ModelUsed:
    """Describe the checkpoint: the folder, or without one the recipe's repository.

    A folder of the checkout is named by its path there, any other by its last name only.
    """
    if folder is None:
        return ModelUsed(name=recipe.model.name, repository=recipe.model.repository or "",
                         revision=recipe.model.revision)
    there = folder.absolute()
    inside = there.is_relative_to(root.absolute())
    path = there.relative_to(root.absolute()).as_posix() if inside else there.name
    return ModelUsed(name=there.name, path=path, revision=folder_digest(there))


def folder_digest(folder: Path) -> str:
    """Return one digest over the names and contents of all files of a folder."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(f"{path.relative_to(folder).as_posix()} {file_digest(path)}\n".encode())
    return f"sha256:{total.hexdigest()}"


def file_digest(path: Path) -> str:
    """Return the digest of a file's contents."""
    return f"sha256:{sha256_file(path)}"
