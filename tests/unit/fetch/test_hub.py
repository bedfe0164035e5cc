"""What a hub says of a repository, and answers that are no hub's."""

from __future__ import annotations

from typing import Any

import pytest
from hub_server import ABOUT, COMMIT, CONFIG, pages, serve_hub

from builder.errors import NetworkError
from builder.fetch import hub
from builder.fetch.hub import HubModel, ask_hub, endpoint
from builder.indexes.settings import Sources

USER = Sources("http://127.0.0.1:9/simple")


def ask(found: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> HubModel:
    with serve_hub(found) as address:
        monkeypatch.setenv("HF_ENDPOINT", f"{address}/")
        return ask_hub("a/b", "main", USER)


def test_commit_sizes_and_configuration_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(pages(), monkeypatch)
    assert (found.revision, found.modified) == (COMMIT, "2026-11-20")
    assert (found.parameters, found.tensor_bytes) == (1_500_000, 3_000_000)
    assert found.files == {"model-1.safetensors": 2_000_100, "model-2.safetensors": 1_000_100}
    assert found.config == CONFIG
    assert found.hub.startswith("http://127.0.0.1:")


def test_one_file_has_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    left = {path: page for path, page in pages().items() if "index" not in path}
    assert ask(left, monkeypatch).tensor_bytes is None


@pytest.mark.parametrize("answer", [None, {}, [], {**ABOUT, "siblings": [{"rfilename": "a"}]},
                                    {**ABOUT, "siblings": [{"rfilename": "a.safetensors"}]},
                                    {**ABOUT, "siblings": [{"rfilename": "a.safetensors",
                                                            "size": "x" * 99_999}]}])
def test_an_answer_that_is_no_hub_s_is_a_network_error(monkeypatch: pytest.MonkeyPatch,
                                                       answer: Any) -> None:
    found = pages()
    about = next(iter(found))
    if answer is None:
        del found[about]
    else:
        found[about] = answer
    if isinstance(answer, dict) and answer and answer["siblings"][0]["rfilename"] == "a":
        assert ask(found, monkeypatch).files == {}  # a file that is none of the weights
        return
    with pytest.raises(NetworkError, match="the hub says nothing of a/b") as caught:
        ask(found, monkeypatch)
    assert len(caught.value.what) < 400


def test_a_hub_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(NetworkError, match="no connection"):
        ask_hub("a/b", "main", USER)
    monkeypatch.setenv("HF_ENDPOINT", "https://me:pw@hub.example/")
    assert hub._named() == "https://hub.example"
    monkeypatch.setenv("HF_ENDPOINT", "")
    assert endpoint() == "https://huggingface.co"
    monkeypatch.delenv("HF_ENDPOINT")
    assert endpoint() == "https://huggingface.co"
