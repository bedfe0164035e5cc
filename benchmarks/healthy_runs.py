"""Does the battery ever go red on a healthy server? `python -m benchmarks.healthy_runs [RUNS]`.

Boots the tiny model once on the CPU image and asks the whole battery RUNS times (default 20).
Prints each run and everything that did not pass; ends with 1 if there was anything, or if the
server's log shows a known issue. A second word names another recipe.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builder.diagnosis.catalogue import load
from builder.diagnosis.matching import diagnose
from builder.engine.client import Container, Engine, RunSpec
from builder.recipes.launch import PORT, served_path, server_command
from builder.recipes.load import load_recipe
from builder.recipes.models import Recipe
from builder.record.check import Check, Status
from builder.smoke.client import Client
from builder.smoke.probes.run import ask
from builder.workspace import open_workspace

ROOT = Path(__file__).parents[1]
IMAGE = "127.0.0.1:5000/sparkyard/cpu:cpu"
GOOD = (Status.PASS, Status.NOT_APPLICABLE)


@contextmanager
def served(recipe: Recipe) -> Iterator[tuple[Container, Client]]:
    """Boot the recipe's folder and wait until the server says that it is up."""
    assert recipe.model.path
    folder = f"/{recipe.model.name}"
    cell = next(cell for cell in open_workspace(ROOT / "matrix.toml").cells if cell.id == "cpu")
    command = tuple(folder if word == served_path(recipe) else word
                    for word in server_command(recipe, cell))
    spec = RunSpec(IMAGE, command, env=dict(recipe.environment), ports=(PORT,), shm_size="1g",
                   copies=((ROOT / recipe.model.path, folder),))
    with Engine.connect().start(spec) as box:
        if not any("Application startup complete" in line for line in box.logs(follow=True)):
            raise SystemExit("the server ended before it was ready")
        client = Client(box.published_port(PORT), recipe.model.name)
        while not client.healthy():
            time.sleep(0.2)
        yield box, client


def options(text: str | None, name: str, number: int, what: str) -> tuple[int, Recipe]:
    """Read the two words of the command line: how many, and the recipe that is served."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument(name, nargs="?", default=number, type=int,
                        help=f"{what} (default: %(default)s)")
    parser.add_argument("recipe", nargs="?", default="tiny-gemma4",
                        help="what is served (default: %(default)s)")
    found = vars(parser.parse_args())
    return found[name], load_recipe(ROOT, found["recipe"])


def once(number: int, client: Client, recipe: Recipe) -> list[Check]:
    """Ask the battery, print the counts and what is not good; return that."""
    started = time.monotonic()
    checks = ask(client, recipe.capabilities)
    counts = Counter(check.status for check in checks)
    bad = [check for check in checks if check.status not in GOOD]
    said = ", ".join(f"{counts[status]} {status.value}" for status in Status)
    print(f"run {number:2}: {said}; {time.monotonic() - started:.0f} s", flush=True)
    for check in bad:
        print(f"  {check.status.value} {check.check}: {check.detail[:600]}", flush=True)
    return bad


def main() -> int:
    """Run and sum up."""
    runs, recipe = options(__doc__, "runs", 20, "how often the battery is asked")
    with served(recipe) as (box, client):
        red = [bad for number in range(1, runs + 1) if (bad := once(number, client, recipe))]
        issues = diagnose(box.logs(), load())
    print(f"{recipe.name}: {len(red)} of {runs} runs were not green; known issues in the log: "
          f"{', '.join(item.issue.name for item in issues) or 'none'}")
    return 1 if red or issues else 0


if __name__ == "__main__":
    raise SystemExit(main())
