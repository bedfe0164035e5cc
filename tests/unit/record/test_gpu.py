"""Where something was measured: a GB10 is claimed only where its driver says so, in the container."""  # noqa: E501

from __future__ import annotations

import pytest

from builder.errors import EngineError
from builder.process import CommandError, Result
from builder.record.gpu import QUERY, Gpu, gpus_in, place

SPARK = "NVIDIA GB10, 12.1, 580.95.05\n"
OTHER = "NVIDIA H200, 9.0, 570.12\n"


class Box:
    """Stands in for a container whose driver program says ``text``."""

    def __init__(self, text: str, status: int = 0) -> None:
        self.result = Result((), status, text, "")

    def exec(self, command: object, *, timeout: float | None = None) -> Result:
        assert command == QUERY
        return self.result


@pytest.mark.parametrize(("text", "status", "emulated", "where"), [
    (SPARK, 0, False, "gb10"),
    (SPARK + SPARK, 0, False, "gb10"),
    (OTHER, 0, False, "gpu"),
    (SPARK + OTHER, 0, False, "gpu"),
    ("NVIDIA GB100, 12.1, 580\n", 0, False, "gpu"),
    ("NVIDIA GB10, 9.0, 580\n", 0, False, "gpu"),
    ("", 0, False, "cpu"),
    ("", 0, True, "emulated"),
    ("OCI runtime exec failed: nvidia-smi: not found", 127, False, "cpu"),
    ("NVIDIA-SMI has failed because it couldn't talk to the driver, x, y\n", 9, False, "cpu")])
def test_where_it_was_measured(text: str, status: int, *, emulated: bool, where: str) -> None:
    assert place(gpus_in(Box(text, status)), emulated=emulated) == where


def test_what_the_driver_says_is_kept() -> None:
    assert gpus_in(Box(SPARK)) == (
        Gpu(name="NVIDIA GB10", compute_capability="12.1", driver="580.95.05"),)


class Hung:
    """A container whose driver program never ends."""

    def exec(self, command: object, *, timeout: float | None = None) -> Result:
        assert timeout
        raise CommandError(Result(("docker",), 124, "", "no end"))


def test_a_driver_that_does_not_answer_is_no_machine_without_a_gpu() -> None:
    with pytest.raises(EngineError, match="nvidia-smi did not answer"):
        gpus_in(Hung())
