"""What comes of asking: the answer as text, and what is wrong with it."""

from __future__ import annotations

import json
from typing import Any

Asked = tuple[str, str]  # the answer, and what is wrong with it or nothing


def said(got: dict[str, Any]) -> str:
    """Return the message as text: its content, or its tool calls."""
    message = got["choices"][0]["message"]
    return message.get("content") or json.dumps(message.get("tool_calls") or "",
                                                ensure_ascii=False)
