"""The machine of a record: its processor where the engine is here, and nothing that names it."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

import pytest

from builder.engine.facts import EngineInfo
from builder.record.host_facts import cpu_model, host_facts

INFO = EngineInfo(id="the-engine's-id", version="27.1", client="27.1", buildx="", buildkit="",
                  driver="docker", platform="linux/arm64", platforms=(),
                  data_root=Path("/home/me/docker"), kernel=platform.release(), system="Debian",
                  machine="aarch64", cpus=20, memory=128)
X86 = "processor\t: 0\nmodel name\t: A CPU @ 3 GHz\n\nprocessor\t: 1\nmodel name\t: A CPU @ 3 GHz\n"
ARM = "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x0\nCPU part\t: 0xd85\n"


@pytest.mark.parametrize(("text", "model"), [
    (X86, "A CPU @ 3 GHz"), (ARM, "implementer 0x41, part 0xd85"), ("", ""), ("no pairs", ""),
    (None, "")])
def test_the_processors_model(tmp_path: Path, text: str | None, model: str) -> None:
    if text is not None:
        (tmp_path / "cpuinfo").write_text(text)
    assert cpu_model(tmp_path) == model


def test_the_processor_of_this_machine_is_not_told_of_an_engine_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(X86)
    here = host_facts(INFO, tmp_path)
    elsewhere = host_facts(replace(INFO, kernel="another"), tmp_path)
    assert (here.cpu, elsewhere.cpu) == ("A CPU @ 3 GHz", "")
    assert (elsewhere.kernel, elsewhere.cpus, elsewhere.memory) == ("another", 20, 128)


def test_nothing_in_it_names_the_machine(tmp_path: Path) -> None:
    text = host_facts(INFO, tmp_path).model_dump_json()
    assert "Docker 27.1" in text
    for secret in (INFO.id, "/home/me", platform.node()):
        assert secret not in text
