"""Servers read from labels, and a switch that was cut off read from two containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.engine.container import ContainerState
from builder.engine.service import ServiceFacts
from builder.serve import servers
from builder.serve.servers import Survey, names, read_server
from tests.unit.played_servers import launch


def facts(identity: str, labels: dict[str, str], status: str = "running", restart: str = "no"
          ) -> ServiceFacts:
    return ServiceFacts(identity, f"sparkyard-{identity}", "sha256:1", labels,
                        ContainerState(status, 0, out_of_memory=False, error=""), "2026",
                        "2026", restart)


def test_what_a_launch_writes_is_what_is_read(tmp_path: Path) -> None:
    planned = launch(tmp_path, port=8123)
    server = read_server(facts("a", dict(planned.spec.labels)))
    assert (server.recipe, server.cell, server.port) == ("tiny-gemma4", "cpu", 8123)
    assert server.launch == planned.digest
    assert server.flags[:2] == ("python", "-m")
    assert server.url == "http://127.0.0.1:8123/v1"
    assert (server.key_file, server.restart, server.replaces) == (None, False, "")
    assert read_server(facts("a", {}, restart="unless-stopped")).restart


def test_all_addresses_are_asked_on_the_loopback_one() -> None:
    assert read_server(facts("a", {servers.HOST: "0.0.0.0"})).reached_at == "127.0.0.1"
    assert read_server(facts("a", {servers.HOST: "10.0.0.7"})).reached_at == "10.0.0.7"
    ipv6 = read_server(facts("a", {servers.HOST: "::1", servers.PORT: "1"}))
    assert ipv6.url == "http://[::1]:1/v1"


def test_labels_of_another_version_are_no_fault() -> None:
    odd = read_server(facts("a", {servers.PORT: "x", servers.FLAGS: "{"}))
    assert (odd.port, odd.flags) == (0, ())


def test_a_switch_is_cut_off_while_both_are_there() -> None:
    old = read_server(facts("old", {servers.RECIPE: "a"}, "exited"))
    new = read_server(facts("new", {servers.RECIPE: "b", servers.REPLACES: "old"}, "created"))
    both = Survey((old, new))
    assert both.switch
    assert (both.switch.old, both.switch.new) == (old, new)
    assert Survey((new,)).switch is None
    assert both.running == ()
    assert (old.was_started, new.was_started) == (True, False)
    assert both.of("a") == both.of("sparkyard-old") == (old,)
    assert names((old, new)) == "a (port 0), b (port 0)"


@pytest.mark.parametrize("port", ["\N{SUPERSCRIPT TWO}", "9" * 5000, "-1", "x"])
def test_a_port_that_is_none_is_no_traceback(port: str) -> None:
    assert read_server(facts("a", {servers.RECIPE: "tiny", servers.PORT: port})).port == 0
