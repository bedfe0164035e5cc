"""The build as a bake definition."""

from __future__ import annotations

import json
from pathlib import Path

from builder.compile import bake
from builder.store.content_store import Store, StoredLayer

ROOT = Path(__file__).parents[3]


def test_the_dockerfile_has_base_layers_and_no_network(tmp_path: Path) -> None:
    layer = StoredLayer("c" * 64, 1, tmp_path)
    text = bake.dockerfile(ROOT, "base@sha256:1", [layer])
    assert "FROM base@sha256:1 AS toolchain" in text
    assert f"ADD --link {'c' * 64}.tar /" in text
    assert "@" not in text.replace("base@sha256:1", "")
    assert all("--network=none" in step for step in text.split("RUN ")[1:])


def test_only_a_compile_with_a_shared_cache_has_a_network(tmp_path: Path) -> None:
    text = bake.dockerfile(ROOT, "base", [], shared=True)
    assert [step.split()[0] for step in text.split("RUN ")[1:]] == [
        "--network=none", "--network=default"]
    store, place = Store(tmp_path / "cache"), tmp_path / "any"
    for shared, secrets in (True, ["id=ccache-remote,env=SPARKYARD_CCACHE_REMOTE"]), (False, None):
        target = bake.definition("FROM x", store, place, place, "linux/amd64", "1", shared=shared)
        assert target["target"][bake.TARGET].get("secret") == secrets


def test_comments_are_no_part_of_what_decides(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/Dockerfile").write_text("# why\nFROM a\n    # indented\nRUN b\n")
    assert bake.instructions(tmp_path) == "FROM a\nRUN b"


def test_only_the_result_comes_out_and_each_run_is_a_new_attempt(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")

    def target(attempt: str) -> dict[str, object]:
        return dict(bake.definition("FROM x", store, tmp_path / "order", tmp_path / "result",
                                    "linux/amd64", attempt)["target"][bake.TARGET])
    first = target("1")
    assert first["output"] == [f"type=local,dest={tmp_path / 'result'}"]
    assert first["contexts"] == {"order": str(tmp_path / "order")}
    assert Path(str(first["context"])).resolve() == store.layers.resolve()
    assert first["args"] != target("2")["args"]


def test_the_order_is_written_in_one_form(tmp_path: Path) -> None:
    bake.write_order(tmp_path, {"b": 1, "a": [2]})
    assert json.loads((tmp_path / "order.json").read_text()) == {"a": [2], "b": 1}
