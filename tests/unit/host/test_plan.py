"""What is planned for a machine, and above all what is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hosts_for_tests import BARE, WORKING

from builder.errors import EngineError, UsageError
from builder.host.plan import (
    Command,
    Emulate,
    Service,
    Step,
    Unpack,
    WriteFile,
    emulation_rule,
    plan,
    registry_config,
)

CACHE = Path("/cache")


def installed(steps: tuple[Step, ...]) -> list[str]:
    return [word for step in steps
            if isinstance(step.action, Command) and "install" in step.action.words
            for word in step.action.words[step.action.words.index("install"):]]


def written(steps: tuple[Step, ...], part: str) -> str:
    return next(step.action.text for step in steps
                if isinstance(step.action, WriteFile) and part in step.action.path)


def test_a_working_machine_is_left_alone() -> None:
    assert plan(WORKING, CACHE) == ()


def test_bare_debian_12_takes_its_engine_from_debian_13() -> None:
    steps = plan(BARE, CACHE)
    words = installed(steps)
    assert {"docker.io/trixie", "docker-cli/trixie", "docker-buildx/trixie",
            "qemu-user-static/bookworm-backports"} <= set(words)
    source = written(steps, "sources.list.d")
    assert "URIs: http://mirror.example/debian\n" in source
    assert "Suites: trixie bookworm-backports" in source
    assert "Signed-By: /k.gpg" in source


def test_the_added_suites_are_pinned_below_everything_else() -> None:
    pins = written(plan(BARE, CACHE), "preferences.d")
    assert pins.count("Pin-Priority: 50") == 2
    assert "release n=trixie" in pins


@pytest.mark.parametrize("system", ["debian trixie", "ubuntu noble"])
def test_newer_releases_need_no_other_source(system: str) -> None:
    steps = plan(replace(BARE, system=system), CACHE)
    assert "docker.io" in installed(steps)
    assert not [step for step in steps if isinstance(step.action, WriteFile)
                and step.action.path.startswith("/etc/apt")]


def test_after_a_reboot_only_the_services_are_started() -> None:
    steps = plan(replace(WORKING, engine=None, registry=False), CACHE)
    assert [type(step.action) for step in steps] == [Service, WriteFile, Service]
    assert steps[0].action == Service(("dockerd",), CACHE / "services/dockerd.log", "engine")


def test_systemd_starts_the_engine_where_there_is_one() -> None:
    steps = plan(replace(WORKING, engine=None, systemd=True), CACHE)
    assert [step.action.words for step in steps if isinstance(step.action, Service)] == [
        ("systemctl", "start", "docker")]


def test_a_running_engine_without_buildx_only_gets_the_plugin() -> None:
    steps = plan(replace(WORKING, buildx=None), CACHE)
    assert "docker-buildx/trixie" in installed(steps)
    assert "docker.io/trixie" not in installed(steps)
    assert not [step for step in steps if isinstance(step.action, Service)]


def test_missing_emulation_alone() -> None:
    steps = plan(replace(WORKING, arm64=None), CACHE)
    assert [step.action for step in steps] == [Emulate()]


def test_an_arm64_machine_needs_no_emulator() -> None:
    steps = plan(replace(BARE, machine="aarch64", arm64="native"), CACHE)
    assert not any("qemu" in word for word in installed(steps))


@pytest.mark.parametrize(("system", "package"), [
    ("debian bookworm", "docker-registry/trixie"), ("debian trixie", "docker-registry"),
    ("ubuntu noble", "docker-registry"), ("elsewhere 1", "docker-registry")])
def test_the_registry_program_is_unpacked_and_never_installed(system: str, package: str) -> None:
    steps = plan(replace(WORKING, system=system, sources=BARE.sources, registry=False,
                         registry_program=None), CACHE)
    assert [step.action.package for step in steps if isinstance(step.action, Unpack)] == [package]
    added = [step for step in steps if isinstance(step.action, WriteFile)
             and step.action.path.startswith("/etc/apt")]
    assert bool(added) == package.endswith("/trixie"), "its source is there when it is asked for"
    assert installed(steps) == []
    config = written(steps, "registry.yml")
    assert "addr: 127.0.0.1:5000" in config
    assert "rootdirectory: /cache/services/registry" in config


def test_no_registry_is_started_for_one_that_is_elsewhere() -> None:
    assert plan(replace(WORKING, registry=False, registry_address=""), CACHE) == ()


def test_an_unknown_system_is_told_what_to_install() -> None:
    with pytest.raises(UsageError) as caught:
        plan(replace(BARE, system="fedora 42"), CACHE)
    assert "docker.io" in caught.value.what


def test_an_unknown_system_with_everything_there_is_fine() -> None:
    assert plan(replace(WORKING, system="fedora 42"), CACHE) == ()


def test_debian_12_without_its_own_apt_source_is_an_error() -> None:
    with pytest.raises(EngineError):
        plan(replace(BARE, sources=()), CACHE)


def test_the_kernel_rule_reaches_into_containers() -> None:
    rule = emulation_rule("/usr/bin/qemu-aarch64-static")
    parts = rule.strip().split(":")
    assert parts[1:4] == ["sparkyard-aarch64", "M", ""]
    assert len(parts[4].encode().decode("unicode_escape")) == 20
    assert len(parts[5].encode().decode("unicode_escape")) == 20
    assert "F" in parts[7]


@pytest.mark.parametrize("folder", ["/cache/services/registry", "/data/my cache #2/registry",
                                    "/data/a: b/registry", "/data/'x\"", "/data/\u2028y: z"])
def test_the_registry_stores_where_it_is_told(folder: str) -> None:
    text = registry_config("[::1]:5000", Path(folder))
    assert yaml.safe_load(text) == {
        "version": 0.1, "storage": {"filesystem": {"rootdirectory": folder},
                                    "delete": {"enabled": True}}, "http": {"addr": "[::1]:5000"}}
    assert text.startswith("version: 0.1\n")
