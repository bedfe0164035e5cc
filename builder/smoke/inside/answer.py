"""Import the stack, load the model and ask it one question, and some about pictures.

Through transformers, where a model that sees needs its processor: what resizes a picture and puts
its tokens into the prompt.
"""

from __future__ import annotations

import base64
import importlib
import io
from typing import Any

from results import Wrong, check, spec


def main() -> None:
    """Import each package, then let the model answer."""
    task, model = spec(), None
    for name in task["imports"]:
        with check(f"import {name}") as detail:
            detail.append(str(getattr(importlib.import_module(name), "__version__", "")))
    with check("Gemma 4 answers (transformers)") as detail:
        model = load(task)
        detail.append(expect(with_transformers(task, model), task))
    if model and task.get("pictures"):
        with check("Gemma 4 sees (transformers)") as detail:
            for asked in task["pictures"]:
                detail.append(expect_all(with_pictures(asked, task["model"], model), asked))


def expect(answer: str, task: dict[str, Any]) -> str:
    """Return the answer, quoted, if it contains the expected text; raise Wrong otherwise."""
    if task["expect"] not in answer:
        raise Wrong(f"asked {task['question']!r}, expected {task['expect']!r}, got {answer!r}")
    return repr(answer)


def expect_all(answer: str, asked: dict[str, Any]) -> str:
    """Return the answer, quoted, if it has all the words in their order; raise Wrong otherwise."""
    at = 0
    for word in asked["expect"]:
        at = answer.find(word, at)
        if at < 0:
            raise Wrong(f"asked {asked['question']!r}, expected {', '.join(asked['expect'])} in "
                        f"this order, got {answer!r}")
    return repr(answer)


def load(task: dict[str, Any]) -> Any:
    """Load the model with what its kind needs; one that sees is another class."""
    import transformers

    kind = "AutoModelForImageTextToText" if task.get("pictures") else "AutoModelForCausalLM"
    return getattr(transformers, kind).from_pretrained(task["model"])


def with_transformers(task: dict[str, Any], model: Any) -> str:
    """Generate greedily on the CPU."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(task["model"])
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": task["question"]}], add_generation_prompt=True,
        return_tensors="pt", return_dict=True)
    return generated(model, inputs, tokenizer)


def with_pictures(asked: dict[str, Any], folder: str, model: Any) -> str:
    """Show one or more pictures, through the processor that a server uses, too."""
    from PIL import Image
    from transformers import AutoProcessor

    processor = AutoProcessor.from_pretrained(folder)
    shown = [base64.b64decode(url.partition(",")[2]) for url in asked["urls"]]
    content = [*({"type": "image", "image": Image.open(io.BytesIO(data))} for data in shown),
               {"type": "text", "text": asked["question"]}]
    inputs = processor.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=True,
        return_tensors="pt", return_dict=True)
    return generated(model, inputs.to(model.dtype), processor)


def generated(model: Any, inputs: Any, decoder: Any) -> str:
    """Return the new text alone."""
    output = model.generate(**inputs, do_sample=False, max_new_tokens=64)
    text = decoder.decode(output[0][inputs["input_ids"].shape[1]:], skip_special_tokens=True)
    return str(text).strip()


if __name__ == "__main__":
    main()
