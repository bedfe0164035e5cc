"""Load the model into vLLM's engine in this process and ask it the battery's short texts.

All of them go in one batch, so that an emulated machine pays for the load and not for each one.
"""

from __future__ import annotations

import importlib
import math
import os
from typing import Any

from degenerate import degenerate, leaked  # type: ignore[import-not-found]  # copied beside this
from results import Wrong, check, spec

MAX_TOKENS = 64


def main() -> None:
    """Import each package, then ask everything at once and the first question once more, alone."""
    task = spec()
    for name in task["imports"]:
        with check(f"import {name}") as detail:
            detail.append(str(getattr(importlib.import_module(name), "__version__", "")))
    cases, outputs = task["cases"], list[Any]()
    with check("Gemma 4 answers (vllm.LLM)") as detail:
        engine = load(task["model"])
        outputs = ask(engine, [case["messages"] for case in cases])
        detail.append(f"{len(outputs)} answers in one batch")
    for case, output in zip(cases, outputs, strict=False):
        with check(f"{case['name']} (vllm.LLM)") as detail:
            detail.append(judged(case, output))
    if outputs:
        with check("same answer alone and in a batch (vllm.LLM)") as detail:
            detail.append(same(ask(engine, [cases[0]["messages"]])[0], outputs[0]))


def load(model: str) -> Any:
    """Return the engine: eager, so that nothing is compiled."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM

    return LLM(model=model, enforce_eager=True, dtype="float32", max_model_len=512,
               max_num_seqs=16)


def ask(engine: Any, conversations: list[Any]) -> list[Any]:
    """Generate greedily, with the log probability of each token."""
    from vllm import SamplingParams

    done = engine.chat(conversations, SamplingParams(temperature=0.0, max_tokens=MAX_TOKENS,
                                                     logprobs=1))
    return [request.outputs[0] for request in done]


def judged(case: dict[str, Any], output: Any) -> str:
    """Return the answer, quoted; raise Wrong for all that is wrong with it."""
    text = str(output.text).strip()
    wrong = [found for found in (degenerate(text), leaked(text), *bad_logprobs(output)) if found]
    for wanted in case["contains"]:
        spellings = [wanted] if isinstance(wanted, str) else wanted
        if not any(word.casefold() in text.casefold() for word in spellings):
            wrong.append(f"expected {wanted!r}")
    if output.finish_reason != "stop":
        wrong.append(f"it ended with {output.finish_reason!r}, not 'stop'")
    if wrong:
        raise Wrong(f"{'; '.join(wrong)}: {text!r}")
    return repr(text)


def bad_logprobs(output: Any) -> list[str]:
    """Return a word on log probabilities that are no numbers, or above zero."""
    numbers = [entry.logprob for step in output.logprobs or () for entry in step.values()]
    bad = [number for number in numbers if not -math.inf < number <= 0.0]
    if not numbers:
        return ["no log probabilities came"]
    return [f"log probabilities {bad[:3]}"] if bad else []


def same(alone: Any, batched: Any) -> str:
    """Return the answer that both times was the same; raise Wrong for two."""
    if alone.text != batched.text:
        raise Wrong(f"alone {alone.text!r}, in the batch {batched.text!r}")
    return repr(str(alone.text).strip())


if __name__ == "__main__":
    main()
