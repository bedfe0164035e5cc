"""A docker program that plays containers which stay, with its state in a file, and a launch.

For moments that a real engine passes through too quickly, and for servers that die or lie.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from builder.engine.client import Engine, ImageFacts
from builder.recipes.load import load_recipe
from builder.recipes.models import Recipe
from builder.serve.launch import Asked, Launch, User, plan_launch
from builder.serve.servers import RECIPE
from builder.workspace import Workspace, open_workspace
from tests.unit.diagnosis.test_matching import HEALTHY
from tests.unit.fake_docker import fake_docker
from tests.unit.smoke.test_processes import STAT

ROOT = Path(__file__).parents[2]
WORKSPACE = open_workspace(ROOT / "matrix.toml", make_cache=False)
IMAGE = ImageFacts("sha256:" + "1" * 64, (), {}, (), (), 1, "linux/amd64", "", {})
USER = User(12345, 12346, "someone")
BODY = '''
import json, fcntl, hashlib
from pathlib import Path
folder = Path({folder!r})
lock = open(folder / "lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
state = json.loads((folder / "state.json").read_text())
boxes, verb = state["boxes"], words[1] if words[0] == "container" else words[0]
with open(folder / "calls", "a") as calls: calls.write(verb + "\\n")
def save(): (folder / "state.json").write_text(json.dumps(state))
def fail(text): print(text, file=sys.stderr); sys.exit(1)
known = [word for word in words if word in boxes]
if verb in state["fails"]: fail(state["fails"][verb])
if verb in ("start", "top", "exec", "logs", "update") and not known: fail("No such container: x")
if verb == "create":
    labels = dict(words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "--label")
    name = words[words.index("--name") + 1]
    identity = hashlib.sha256(name.encode()).hexdigest()
    boxes[identity] = dict(Id=identity, Name="/" + name, Image="sha256:" + "1" * 64,
        Created="2026-01-01T00:00:%02dZ" % len(boxes), Config=dict(Labels=labels),
        HostConfig=dict(RestartPolicy=dict(Name="no")),
        State=dict(Status="created", ExitCode=0, OOMKilled=False, Error="",
                   StartedAt="0001-01-01T00:00:00Z"))
    save(); print(identity)
elif verb == "ls": print("\\n".join(boxes))
elif verb == "inspect":
    print(json.dumps([boxes[word] for word in known]))
    if not known: fail("No such container: x")
elif verb == "start":
    box = boxes[known[0]]
    dies = box["Config"]["Labels"][{label!r}] in state["die"]
    box["State"].update(Status="exited" if dies else "running", ExitCode=1 if dies else 0,
                        StartedAt="2026-01-02T00:00:00Z")
    save()
elif verb == "stop":
    for word in known: boxes[word]["State"].update(Status="exited")
    save()
elif verb == "rm":
    for word in known: del boxes[word]
    save()
elif verb == "update":
    boxes[known[0]]["HostConfig"]["RestartPolicy"]["Name"] = words[words.index("--restart") + 1]
    save()
elif verb == "top": print("PID\\n99999999")
elif verb == "logs":
    print("\\n".join(state["logs"][boxes[known[0]]["Config"]["Labels"][{label!r}]]))
elif verb == "exec": print({stat!r}, end="")
elif verb == "events":
    fcntl.flock(lock, fcntl.LOCK_UN)
    print("start", flush=True)
    identity = next(word for word in " ".join(words).replace("=", " ").split() if word in boxes)
    while True:
        now = json.loads((folder / "state.json").read_text() or "{{}}")
        box = now.get("boxes", {{}}).get(identity)
        if box and box["State"]["Status"] == "exited": print("die", flush=True); break
        time.sleep(0.05)
    time.sleep(60)
'''


class Played:
    """The engine that is played, and what it remembers."""

    def __init__(self, folder: Path) -> None:
        """Begin with no container; every server is healthy."""
        self.folder = folder
        self.write({"boxes": {}, "die": [], "fails": {}, "logs": {
            name: list(HEALTHY) for name in ("tiny-gemma4", "tiny-gemma4-moe")}})
        body = BODY.format(folder=str(folder), label=RECIPE, stat=STAT)
        self.engine = Engine(str(fake_docker(folder, body)), None, None)

    def read(self) -> dict[str, Any]:
        """Return the state."""
        found: dict[str, Any] = json.loads((self.folder / "state.json").read_text())
        return found

    def write(self, state: Mapping[str, Any]) -> None:
        """Replace the state."""
        (self.folder / "state.json").write_text(json.dumps(state))

    def change(self, **changes: Any) -> None:
        """Change a part of the state."""
        self.write({**self.read(), **changes})

    def boxes(self) -> dict[str, str]:
        """Return the recipes of all containers, each with its state."""
        return {box["Config"]["Labels"][RECIPE]: box["State"]["Status"]
                for box in self.read()["boxes"].values()}

    def calls(self) -> list[str]:
        """Return the verbs that were asked for."""
        return [line.split()[0] for line in (self.folder / "calls").read_text().splitlines()]


def workspace(cache: Path) -> Workspace:
    """Return this checkout with a cache of its own."""
    return replace(WORKSPACE, cache=cache)


def recipe(name: str, **changes: object) -> Recipe:
    """Return a committed recipe whose model has the name that the fake server knows."""
    found = load_recipe(ROOT, name)
    model = found.model if found.model.repository else found.model.model_copy(
        update={"path": "tests/fixtures/tiny"})
    return found.model_copy(update={"model": model, "chat_template": None, **changes})


def launch(cache: Path, name: str = "tiny-gemma4", *, port: int = 8000, cell: str = "",
           asked: Asked | None = None, **changes: object) -> Launch:
    """Return the launch of a committed recipe."""
    chosen = recipe(name, **changes)
    return plan_launch(
        workspace(cache), chosen,
        next(item for item in WORKSPACE.cells if item.id == (cell or chosen.image)), IMAGE,
        "registry/x:x", asked or Asked(port=port), versions={}, user=USER)
