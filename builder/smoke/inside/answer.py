"""Import the stack, load the model and ask it one question, through transformers."""

from __future__ import annotations

import importlib
from typing import Any

from results import Wrong, check, spec


def main() -> None:
    """Import each package, then let the model answer."""
    task = spec()
    for name in task["imports"]:
        with check(f"import {name}") as detail:
            detail.append(str(getattr(importlib.import_module(name), "__version__", "")))
    with check("Gemma 4 answers (transformers)") as detail:
        detail.append(expect(with_transformers(task), task))


def expect(answer: str, task: dict[str, Any]) -> str:
    """Return the answer, quoted, if it contains the expected text; raise Wrong otherwise."""
    if task["expect"] not in answer:
        raise Wrong(f"asked {task['question']!r}, expected {task['expect']!r}, got {answer!r}")
    return repr(answer)


def with_transformers(task: dict[str, Any]) -> str:
    """Generate greedily on the CPU."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(task["model"])
    model = AutoModelForCausalLM.from_pretrained(task["model"])
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": task["question"]}], add_generation_prompt=True,
        return_tensors="pt", return_dict=True)
    output = model.generate(**inputs, do_sample=False, max_new_tokens=64)
    text = tokenizer.decode(output[0][inputs["input_ids"].shape[1]:], skip_special_tokens=True)
    return str(text).strip()


if __name__ == "__main__":
    main()
