"""Records for the tests of reports: one with every status, and one that is hostile throughout."""

from __future__ import annotations

import json
from typing import Any

from builder.record.bench import Bench, Conditions, GridPoint, Metric, Series
from builder.record.check import Check, Status
from builder.record.gpu import Gpu
from builder.record.models import KnownFailure, Record
from tests.unit.record.test_models import a_record

GPUS = {"gb10": (Gpu(name="NVIDIA GB10", compute_capability="12.1", driver="580"),),
        "gpu": (Gpu(name="NVIDIA H200", compute_capability="9.0", driver="570"),)}
REQUEST = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "2 and 2?"}]})
CHECKS = (
    Check(check="boot", status=Status.PASS, detail="ready", seconds=50.0),
    Check(check="text: sum", status=Status.PASS, detail="'4'", seconds=2.0, request=REQUEST,
          answer="4"),
    Check(check="text: flaky one", status=Status.FLAKY, detail="right only when asked again",
          request=REQUEST, answer="five"),
    Check(check="vision", status=Status.NOT_APPLICABLE, detail="the recipe has no eyes"),
    Check(check="tools: single", status=Status.FAIL, detail="no JSON: '{'", seconds=0.5,
          request=REQUEST, answer="{"),
)
# Each would do something where it is not escaped: end its element, run, load, mention, colour.
HOSTILE = ("</script></style></pre></details></td></table><script>window.hacked = 1</script>"
           "<img src=http://127.0.0.1:9/loaded onerror='window.hacked = 2'>"
           "<style>*{display:none}</style><base href=http://127.0.0.1:9/>"
           "<a href=javascript:window.hacked=3>x</a> ![i](http://127.0.0.1:9/i) ``` ```` @everyone "
           "&lt;b&gt; | \x1b[2J\x1b]0;owned\x07 \u202egnp.exe\u202c \u0000 ]]> --> {{ 7*7 }} "
           "{% raw %} " + "W" * 2000)


def full_record(**changes: Any) -> Record:
    """Return a record in which every status and every part of a report occurs."""
    where = changes.pop("where", "cpu")
    return a_record().model_copy(update={
        "checks": CHECKS, "phases": {"start": 20.0, "weights": 30.0}, "seconds": 60.0,
        "labels": {"org.sparkyard.version.vllm": "0.32.0"},
        "diagnosis": (KnownFailure(name="broken-tool-calls", cause="tool calls break",
                                   remedy="a newer vLLM"),),
        "gpus": GPUS.get(where, ()),
        "execution": where if where in ("emulated", "unseen") else "native", **changes})


def hostile_record() -> Record:
    """Return a record in which all that a model, a log or an image can say is hostile."""
    checks = tuple(Check(check=f"text: {status.value} {HOSTILE}", status=status, detail=HOSTILE,
                         seconds=1.0, request=json.dumps({"content": HOSTILE}), answer=HOSTILE)
                   for status in Status)
    return full_record(checks=checks, diagnosis=(KnownFailure(name="F1", cause=HOSTILE),),
                       phases={HOSTILE: 3.0}, image=HOSTILE,
                       state="interrupted", reason=HOSTILE, cell=HOSTILE,
                       recipe=HOSTILE, started=HOSTILE, metrics={HOSTILE: 1.5},
                       labels={f"org.sparkyard.version.{HOSTILE}": HOSTILE}, log=HOSTILE)


def a_bench(place: str = "cpu") -> Bench:
    """Return a benchmark of two cells and three metrics, three runs each."""
    series = tuple(Series(metric=metric, point=GridPoint(pp=128, tg=32, concurrency=many),
                          samples=(base * many, 1.02 * base * many, 0.98 * base * many))
                   for many in (1, 2) for metric, base in _rates())
    conditions = Conditions(where=place, hardware="two cores", model="tiny",  # type: ignore[arg-type]
                            revision="sha256:1", serve=(), tool="llama-benchy 0.3", options=(),
                            text_sha256="0")
    return Bench(conditions=conditions, vllm="0.32.0", seconds=9.0, series=series, llama_benchy={},
                 left_out=("pp2048: not in a context of 1024 tokens",))


def _rates() -> tuple[tuple[Metric, float], ...]:
    return ("decode", 41.0), ("prefill", 900.0), ("ttft", 140.0)
