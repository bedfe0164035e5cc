"""What engines and registries say: known failures get their name, others stay as they came."""

from __future__ import annotations

import pytest

from builder.engine.errors import explain
from builder.errors import DiskError, EngineError, NetworkError, SparkyardError

# As Docker 20 to 28 and buildx 0.13 print them.
SAID: tuple[tuple[str, type[SparkyardError], str], ...] = (
    ("write /var/lib/docker/tmp/x: no space left on device", DiskError, "disk"),
    ("permission denied while trying to connect to the Docker daemon socket", EngineError,
     "no permission"),
    ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?",
     EngineError, "cannot connect to the Docker engine"),
    ("error: unexpected EOF", EngineError, "connection to the Docker engine was lost"),
    ("Error response from daemon: No such container: 492c2e", EngineError, "removed"),
    ("Bind for 127.0.0.1:8000 failed: port is already allocated", EngineError, "port is in use"),
    ("listen tcp4 127.0.0.1:8000: bind: address already in use", EngineError, "port is in use"),
    ("listen tcp4 1.2.3.4:8000: bind: cannot assign requested address", EngineError,
     "does not have the address"),
    ("exec /bin/sh: exec format error", EngineError, "platform"),
    ('ERROR: no builder "nobody" found', EngineError, "no such buildx builder"),
    ("docker: 'buildx' is not a docker command.", EngineError, "no buildx plugin"),
    ("toomanyrequests: You have reached your pull rate limit", NetworkError, "HTTP 429"),
    ("unauthorized: authentication required", NetworkError, "HTTP 401"),
    ("unexpected status from HEAD request to http://r/v2/x: 401 Unauthorized", NetworkError,
     "HTTP 401"),
    ("denied: requested access to the resource is denied", NetworkError, "HTTP 403"),
    ("unexpected status from POST request to http://r/v2/x/blobs/uploads/: 403 Forbidden",
     NetworkError, "HTTP 403"),
    ("received unexpected HTTP status: 500 Internal Server Error", NetworkError, "HTTP 5xx"),
    ("manifest unknown: manifest unknown", NetworkError, "does not have"),
    ("Get \"https://r/v2/\": dial tcp: lookup r: no such host", NetworkError,
     "cannot connect to the registry"),
)


@pytest.mark.parametrize(("said", "kind", "told"), SAID)
def test_a_known_failure_is_named_with_what_to_do(
        said: str, kind: type[SparkyardError], told: str) -> None:
    error = explain(said, "doing it", "r/x:y")
    assert type(error) is kind
    first, _, rest = error.what.partition("\n")
    assert first.startswith("doing it: ")
    assert told in first
    assert said in rest
    assert error.next_step


def test_an_unknown_failure_stays_as_it_came() -> None:
    error = explain("line\n" * 99 + "something new", "doing it")
    assert type(error) is EngineError
    assert error.what.startswith("doing it failed\n")
    assert error.what.endswith("something new")
    assert error.what.count("\n") == 15


def test_garbage_and_endless_lines_are_not_printed() -> None:
    error = explain(bytes(range(128, 256)).decode("utf-8", "replace") * 40 + "\n" + "x" * 99_999,
                    "doing it")
    assert "\ufffd" not in error.what
    assert "(binary data)" in error.what
    assert len(error.what) < 1_000


def test_no_advice_names_a_command_that_does_not_exist() -> None:
    step = explain("no space left on device", "building").next_step
    assert "./nox -s cache -- prune" in step
    assert "--prune" not in step


def test_passwords_and_escape_sequences_do_not_reach_the_user() -> None:
    error = explain("push to https://me:hunter2@r/x\x1b[2J failed", "pushing",
                    "https://me:hunter2@r/x")
    assert "hunter2" not in str(error)
    assert "\x1b" not in str(error)
