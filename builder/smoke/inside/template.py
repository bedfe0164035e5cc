"""Print where the served chat template lies and the digests that it may be known by, as JSON.

Arguments: the model as it was given to the server (a folder, or a repository of the hub's cache),
its revision (or nothing), and the file of ``--chat-template`` (or nothing).

The order is the one in which transformers looks: a file of its own, then the configuration of the
tokenizer. Inside JSON the template is a string, whose last newline may have been cut off.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from pathlib import Path


def main(model: str, revision: str = "", given: str = "") -> None:
    """Print one JSON object: ``where``, empty if there is none, and ``digests``."""
    file = Path(given) if given else None
    for name in ("chat_template.jinja", "chat_template.json", "tokenizer_config.json"):
        file = file or with_template(locate(model, revision, name))
    digests = [hashlib.sha256(text).hexdigest() for text in texts(file)] if file else []
    sys.stdout.write(json.dumps({"where": str(file or ""), "digests": digests}) + "\n")


def locate(model: str, revision: str, name: str) -> Path | None:
    """Return the path of one file of the model; nothing is downloaded."""
    if Path(model).is_dir():
        return Path(model, name)
    hub = importlib.import_module("huggingface_hub")
    path = hub.try_to_load_from_cache(model, name, revision=revision or None)
    return Path(path) if isinstance(path, str) else None


def with_template(path: Path | None) -> Path | None:
    """Return the path if a template lies there."""
    return path if path and path.is_file() and texts(path) else None


def texts(path: Path) -> list[bytes]:
    """Return the template as it may have been digested, nothing where the file has none."""
    if path.suffix != ".json":
        return [path.read_bytes()]
    template = json.loads(path.read_text(encoding="utf-8")).get("chat_template")
    if isinstance(template, list):  # several, by name
        template = next((each["template"] for each in template if each["name"] == "default"), None)
    return [template.encode(), (template + "\n").encode()] if template else []


if __name__ == "__main__":
    main(*sys.argv[1:])
