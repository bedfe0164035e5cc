"""The image contract on a real engine: each check fires on an image made wrong for it.

The images are the small ``probe`` with a ``torch`` that is only a name, and one thing more each.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from builder.build import build
from builder.engine.client import Engine
from builder.locking.lock import load_for
from builder.recipes.load import load_recipe
from builder.smoke.contract import COMMAND_CHECK, check_contract
from builder.smoke.models import Run
from tests.integration.test_build import SITE, make_workspace

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
NAME = "127.0.0.1:5000/sparkyard/contract"
WRONG = {
    "entrypoint": ('ENTRYPOINT ["python3", "-c", "print(1)"]', {COMMAND_CHECK}),
    "folders": ("COPY --chmod=700 torch.py /cache/huggingface\nWORKDIR /var",
                {"any user: the folders are writable", "read-only root: the folders are writable"}),
    "python": ("ENV PATH=/usr/bin:$PATH", {"any user: python3 is the one with torch and vLLM"}),
    "root": ("ENV HF_HOME=/root/.cache/huggingface",
             {"any user: a name, a home and nothing of root's"}),
    "nccl": ("COPY torch.py /usr/lib/libnccl.so.2", {"any user: one NCCL, as labelled"}),
    "caches": (f"COPY torch.py {SITE}/flashinfer.py\nENV FLASHINFER_WORKSPACE_BASE=/var",
               {"read-only root: the compilers write into their caches"}),
    "writes": (f"COPY writes.py {SITE}/torch.py", {"read-only root: torch and vLLM import"}),
}


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Build the probe and give it a torch by name."""
    workspace, engine = make_workspace(tmp_path_factory.mktemp("probe")), Engine.connect()
    cell = workspace.cells[0]
    made = build(workspace, cell, engine)
    context = tmp_path_factory.mktemp("context")
    (context / "torch.py").write_text("__version__ = '1'\n")
    (context / "writes.py").write_text(
        "import pathlib\npathlib.Path('/var/tmp/torch').write_text('x')\n")
    run = Run(workspace, engine, cell, load_for(cell, workspace.locks), "1a",
              load_recipe(ROOT, "tiny-gemma4"), None, made.plan.name, made.image)
    yield made_from(run, context, "good", f"COPY torch.py {SITE}/torch.py")
    for name in ("good", *WRONG):
        engine.remove(f"{NAME}:{name}")


def made_from(run: Run, context: Path, name: str, lines: str) -> Run:
    text = f"FROM {run.reference}\n{lines}\n"
    reference = f"{NAME}:{name}"
    subprocess.run(["docker", "build", "--quiet", "--tag", reference, "--file", "-", str(context)],
                   input=text.encode(), check=True, capture_output=True)
    image = run.engine.inspect(reference)
    assert image is not None
    return replace(run, reference=reference, image=image)


def failed(run: Run) -> dict[str, str]:
    return {check.check: check.detail for check in check_contract(run, [], lambda _check: None)
            if check.status.value == "fail"}


def test_an_image_of_ours_keeps_the_contract(probe: Run) -> None:
    checks = check_contract(probe, [], lambda _check: None)
    assert [check for check in checks if check.status.value != "pass"] == []
    assert len(checks) == 10


@pytest.mark.parametrize("name", WRONG)
def test_an_image_made_wrong_fails_in_its_own_check_only(
        probe: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '1'\n")
    (tmp_path / "writes.py").write_text(
        "import pathlib\npathlib.Path('/var/tmp/torch').write_text('x')\n")
    lines, expected = WRONG[name]
    assert set(failed(made_from(probe, tmp_path, name, lines))) == expected
