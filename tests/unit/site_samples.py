"""Records of thirty nights for the tests of the page: each is marked as a sample, none measured."""

from __future__ import annotations

import hashlib
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from report_records import CHECKS, HOSTILE, a_bench, full_record

from builder.locking.lock import Lock, LockedWheel
from builder.record.bench import Conditions, describe_hardware
from builder.record.check import Check, Status
from builder.record.gpu import Gpu
from builder.record.host_facts import HostFacts
from builder.record.models import KnownFailure, ModelUsed, Record, free_path, write_record

FIRST = date(2026, 10, 23)
GOOD = (Check(check="boot", status=Status.PASS, detail="ready", seconds=50.0),
        Check(check="text: sum", status=Status.PASS, detail="'4'", seconds=2.0))
HOST = HostFacts(kernel="6", machine="x86_64", system="sample", cpu="sample processor", cpus=2,
                 memory=1, engine="sample")
BROKEN_NIGHTS = (6, 7, 19)
DOCUMENTED = KnownFailure(name="nvfp4-tied-weights", cause="tie_weights raises an error")


def digest(night: int, cell: str) -> str:
    """Return the digest of a night's image: every third night brings a new one."""
    return f"sha256:{hashlib.sha256(f'{cell}{night // 3}'.encode()).hexdigest()}"


def sample(night: int, cell: str, **changes: Any) -> Record:
    """Return one record of a night."""
    labels = {"org.sparkyard.sample": "true", "org.sparkyard.version.torch": "2.13.0",
              "org.sparkyard.version.vllm": f"0.{30 + night // 9}.{night // 3 % 3}"}
    broken = night in BROKEN_NIGHTS and cell == "tf5"
    return full_record(**{
        "cell": cell, "started": f"{FIRST + timedelta(days=night)}T02:17:00Z", "labels": labels,
        "image_digest": digest(night, cell), "image_id": "sha256:" + "0" * 64,
        "where": "gb10" if cell == "tf5" else "cpu",
        "recipe": "gemma4-31b-nvfp4" if cell == "tf5" else "tiny-gemma4",
        "model": ModelUsed(name="gemma-4-31B-NVFP4" if cell == "tf5" else "tiny-gemma4",
                           revision="main"),
        "checks": CHECKS if broken else GOOD,
        "diagnosis": (DOCUMENTED,) if broken else (), **changes})


def bench(night: int) -> Record:
    """Return the benchmark of a night."""
    record = sample(night, "cpu", level="bench", host=HOST)
    made = a_bench()
    factor = 1 + 0.01 * night + 0.02 * (night % 4)
    series = tuple(one.model_copy(update={"samples": tuple(
        round(value * factor, 2) for value in one.samples)}) for one in made.series)
    stated = Conditions.model_validate({**made.conditions.model_dump(), "hardware":
                                        describe_hardware("cpu", (), record.host)})
    return record.model_copy(update={"bench": made.model_copy(update={
        "series": series, "conditions": stated})})


def thirty_nights() -> list[Record]:
    """Return the smoke tests of three cells and a benchmark, night by night."""
    return [record for night in range(30) for record in (
        sample(night, "tf5"), sample(night, "cpu"), bench(night),
        *([sample(night, "cpu-arm64", where="emulated", level="1b")] if night % 2 else []))]


def hostile() -> Record:
    """Return a record in which all foreign text is hostile."""
    return sample(29, HOSTILE, recipe=HOSTILE, image_digest=HOSTILE, started=HOSTILE,
                  model=ModelUsed(name=HOSTILE, revision=HOSTILE),
                  gpus=(Gpu(name=HOSTILE, compute_capability="9.0", driver=HOSTILE),),
                  labels={f"org.sparkyard.version.{HOSTILE}": HOSTILE},
                  state="interrupted", reason=HOSTILE,
                  checks=(Check(check=HOSTILE, status=Status.FAIL, detail=HOSTILE),),
                  diagnosis=(KnownFailure(name=HOSTILE, cause=HOSTILE),))


def a_lock(*versions: str) -> Lock:
    """Return a lock of packages p0, p1 … in these versions."""
    return Lock(cell="cpu", intent="sha256:1", python="3.11", platform="x86_64-manylinux_2_36",
                wheels=tuple(LockedWheel(
                    name=f"p{number}", version=version,
                    file=f"p{number}-{version}-py3-none-any.whl",
                    sha256=version.replace(".", "").rjust(64, str(number)), size=100,
                    index="default") for number, version in enumerate(versions)))


def kept(folder: Path, records: list[Record]) -> Path:
    """Write records below a folder."""
    for record in records:
        write_record(free_path(folder, record), record)
    return folder


