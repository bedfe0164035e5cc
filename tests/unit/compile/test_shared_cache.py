"""The setting of a cache of objects that several machines share."""

from __future__ import annotations

import pytest

from builder.compile.shared_cache import VARIABLE, remote
from builder.errors import UsageError


@pytest.mark.parametrize("address", [
    "http://cache.example:8080/ccache", "redis://secret@cache.example:6379",
    "redis://user:secret@cache.example", "redis://[::1]:6379"])
def test_an_address_that_ccache_can_use(address: str) -> None:
    assert remote({VARIABLE: address})


def test_without_the_setting_there_is_none() -> None:
    assert not remote({})
    assert not remote({VARIABLE: ""})


@pytest.mark.parametrize("address", [
    "https://secret@cache.example", "cache.example:8080", "http://", "http://secret host",
    "http://secret:port", "http://secret|read-only",
    "redis://:secret@cache.example:6379"])
def test_any_other_is_refused_without_showing_it(address: str) -> None:
    with pytest.raises(UsageError) as refused:
        remote({VARIABLE: address})
    assert "secret" not in str(refused.value)
    assert refused.value.where == VARIABLE
