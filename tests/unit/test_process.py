"""The subprocess wrapper: results, failures as errors, and children that never outlive us."""

from __future__ import annotations

import errno
import inspect
import io
import os
import sys
import time
from pathlib import Path

import pytest

from builder import process
from builder.errors import UsageError
from builder.limits import SCRIPT_S, TooMuchError
from builder.process import CommandError, detach, run, stream


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_both_streams_and_the_status_come_back() -> None:
    done = run(python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"),
               check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_a_failure_shows_the_command_quoted_and_its_last_lines() -> None:
    with pytest.raises(CommandError) as caught:
        run(python("import sys; print('the reason', file=sys.stderr); sys.exit(7)"))
    assert "status 7" in caught.value.what
    assert caught.value.what.endswith("the reason")
    assert "'import sys;" in caught.value.where
    assert caught.value.result.returncode == 7


def test_a_missing_program_is_a_usage_error_that_says_what_to_do() -> None:
    with pytest.raises(UsageError, match="no-such-program is not installed") as caught:
        run(["no-such-program"])
    assert caught.value.next_step
    with pytest.raises(UsageError), stream(["no-such-program"]):
        pass


def test_a_broken_program_is_named(tmp_path: Path) -> None:
    program = tmp_path / "broken"
    program.write_bytes(b"\x7fELFbroken")
    program.chmod(0o755)
    with pytest.raises(UsageError, match="broken cannot be started: Exec format error"):
        run([program])
    with pytest.raises(UsageError, match="cannot be started"), stream([program]):
        pass
    with pytest.raises(UsageError, match="cannot be started") as caught:
        detach([program], tmp_path / "log")
    assert "install it again" in caught.value.next_step


def test_a_machine_that_starts_no_more_programs_is_not_the_program_s_fault(
        monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr("builder.process.subprocess.Popen", refuse)
    with pytest.raises(UsageError, match="true cannot be started: Resource temp") as caught:
        run(["true"])
    assert "install" not in caught.value.next_step
    assert "free" in caught.value.next_step


def test_an_overdue_command_is_ended_and_reported() -> None:
    with pytest.raises(CommandError) as caught:
        run(python("import time; time.sleep(60)"), timeout=0.2)
    assert caught.value.result.returncode == 124


def test_the_environment_is_laid_over_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "1")
    code = "import os; print(os.environ['KEPT'], os.environ['NEW'])"
    assert run(python(code), env={"NEW": "2"}).stdout == "1 2\n"


def test_input_and_folder_are_handed_on(tmp_path: Path) -> None:
    code = "import os, sys; print(sys.stdin.read(), os.getcwd())"
    assert run(python(code), stdin=b"fed", cwd=tmp_path).stdout == f"fed {tmp_path}\n"


def test_bytes_that_are_no_text_do_not_break_the_report() -> None:
    done = run(python("import sys; sys.stdout.buffer.write(b'a\\xffb')"))
    assert done.stdout == "a\N{REPLACEMENT CHARACTER}b"


def test_a_streamed_child_does_not_outlive_an_error_in_the_block() -> None:
    with pytest.raises(KeyError), stream(python("import time; time.sleep(60)")) as child:
        raise KeyError
    assert child.returncode is not None


def test_a_streamed_child_is_read_line_by_line() -> None:
    with stream(python("print('a'); print('b')")) as child:
        assert child.stdout is not None
        assert list(child.stdout) == [b"a\n", b"b\n"]


def test_a_detached_service_writes_its_log_and_lives_in_a_session_of_its_own(
        tmp_path: Path) -> None:
    log = tmp_path / "log"
    process.detach(python("import os; print(os.getsid(0) == os.getpid())"), log)
    for _ in range(100):
        if log.exists() and log.read_text().endswith("\n"):
            break
        time.sleep(0.05)
    assert log.read_text() == "True\n"


def test_endless_output_is_ended_at_the_limit() -> None:
    with pytest.raises(CommandError, match=r"more than 0\.1 MB") as caught:
        run(["sh", "-c", "yes"], limit=100_000)
    assert len(caught.value.result.stdout) < 300_000


def test_a_long_line_of_an_endless_stream_is_cut_and_the_whole_is_limited() -> None:
    code = "while True: print('x' * 3_000_000)"
    with stream(python(code)) as child:
        found = process.lines(child, 5_000_000)
        assert len(next(found)) == 1_000_000
        with pytest.raises(TooMuchError, match="more than 5 MB"):
            list(found)


def test_much_input_and_output_at_once_do_not_block_each_other() -> None:
    code = "import sys; data = sys.stdin.read(); print(data); print(data, file=sys.stderr)"
    done = run(python(code), stdin=b"y" * 2_000_000)
    assert len(done.stdout) == len(done.stderr) == 2_000_001


def test_a_child_that_ends_without_reading_its_input_is_no_failure() -> None:
    assert run(python("pass"), stdin=b"z" * 2_000_000).returncode == 0


def test_a_program_left_behind_by_the_child_does_not_hold_us_up_past_the_timeout() -> None:
    with pytest.raises(CommandError, match=r"did not end within 0\.5 s"):
        run(["sh", "-c", "sleep 3 & exit 0"], timeout=0.5)


def test_a_plugin_that_holds_the_pipes_of_an_overdue_program_is_ended_too(tmp_path: Path) -> None:
    """``docker`` starts plugins; one of them outliving it would keep the reader waiting."""
    note = tmp_path / "pid"
    code = ("import subprocess, sys; child = subprocess.Popen(['sleep', '600']);"
            f"open({str(note)!r}, 'w').write(str(child.pid)); print('said', flush=True)")
    with pytest.raises(CommandError, match="status 124") as caught:
        run(python(code), timeout=1.0)
    assert caught.value.result.stdout == "said\n"
    for _ in range(100):  # a zombie until init has reaped it
        stat = Path("/proc") / note.read_text() / "stat"
        if not stat.exists() or stat.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError("the plugin still runs")


def test_a_timed_reader_gives_what_is_there_and_gives_up_on_silence() -> None:
    with stream(python("import time; print('first', flush=True); time.sleep(60)")) as child:
        assert child.stdout is not None
        reader = io.BufferedReader(process.TimedReader(child.stdout, silence=5.0, total=60.0))
        assert reader.readline() == b"first\n"
        impatient = process.TimedReader(child.stdout, silence=0.1, total=60.0)
        with pytest.raises(TimeoutError, match="no output for"):
            impatient.read(1)


def test_a_timed_reader_ends_output_that_trickles() -> None:
    code = "import time\nwhile True: print('.', end='', flush=True); time.sleep(0.05)"
    with stream(python(code)) as child:
        assert child.stdout is not None
        reader = io.BufferedReader(process.TimedReader(child.stdout, silence=5.0, total=0.5))
        with pytest.raises(TimeoutError, match="not finished after"):
            reader.read(1 << 20)


def test_no_program_runs_without_a_limit_in_time() -> None:
    parameter = inspect.signature(run).parameters["timeout"]
    assert parameter.default == SCRIPT_S
    assert parameter.annotation == "float", "None would be no limit"
