"""ninja's status lines as progress: files done of all, and the time left."""

from __future__ import annotations

import pytest

from builder import console
from builder.compile.progress import Progress
from builder.console import Meter


def test_files_are_counted_and_the_time_left_is_told() -> None:
    now = [0.0]
    meter = Meter("compiling", None, None, "files")
    progress = Progress(meter, lambda: now[0])
    progress.line("#25 1.2 @[1/19 1.0] Building CUDA object a.cu.o")
    now[0] = 30.0
    progress.line("#25 31.2 @[4/19 30.0] Building CUDA object b.cu.o")
    assert (progress.done, progress.total, meter.done) == (4, 19, 4)
    assert progress.left() == ", about 1 min 52 s left"
    progress.line("#25 99.0 @[19/19 90.0] Linking CXX shared module")
    assert progress.left() == ""


def test_the_longest_file_may_be_among_those_left() -> None:
    now = [0.0]
    progress = Progress(Meter("compiling", None, None, "files"), lambda: now[0], longest=134)
    progress.line("@[1/20 1.0] Building CUDA object a.cu.o")
    now[0] = 38.0
    progress.line("@[19/20 38.0] Building CUDA object b.cu.o")
    assert progress.left() == ", about 2.0 s to 2 min 14 s left"


def test_what_is_no_status_changes_nothing() -> None:
    progress = Progress(Meter("compiling", None, None, "files"))
    progress.line("#7 [toolchain 3/20] ADD --link x.tar /")
    progress.line("#25 31.2 warning: [4/19] of something")
    assert (progress.done, progress.total) == (0, 0)


def test_a_killed_job_is_said_with_the_jobs_that_fit(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(Meter("compiling", None, None, "files"))
    progress.line('#25 3.0 @jobs {"jobs": 2, "cores": 20, "goals": 1}')
    progress.line('#25 9.0 @killed {"jobs": 2, "next": 1}')
    console.flush()
    said = " ".join(capsys.readouterr().err.split())
    assert "compiling with 2 of 20 cores, as the memory allows" in said
    Progress(Meter("x", None, None, "files"), asked=True).line('@jobs {"jobs": 1, "cores": 2}')
    assert "1 of 2 cores, as asked" in capsys.readouterr().err
    assert "killed for memory with 2 jobs; 1 fit, trying again" in said


@pytest.mark.parametrize("text", ["@jobs {", "@jobs []", "@jobs {}", "@killed 1",
                                  "@jobs " + "[" * 9999, f"@[{'9' * 5000}/1 x] y",
                                  f"@jobs {'9' * 5000}"])
def test_what_a_compiled_program_prints_does_no_harm(text: str) -> None:
    progress = Progress(Meter("compiling", None, None, "files"))
    progress.line(f"#25 3.0 {text}")
    assert progress.total == 0
