"""A badge for each image, as SVG: its cell, its verdict, and that no GB10 has shown it."""

from __future__ import annotations

import hashlib
import re
from html import escape

from builder.report.view import NOT_GB10
from builder.site.evidence import Verdict, in_words
from builder.text import one_line, visible

COLOURS = {"pass": "#0d6637", "fail": "#a11629", "none": "#4f5968"}
CHARACTER, PADDING = 6.6, 16.0  # pixels, at a font of 11 pixels
LONGEST = 60
SAFE = re.compile(rf"[a-z0-9][a-z0-9._-]{{0,{LONGEST - 1}}}")


def badge(cell: str, verdict: Verdict) -> str:
    """Return the badge of a cell."""
    left, right = visible(one_line(cell, LONGEST)), words(verdict)
    first, second = (PADDING + CHARACTER * len(text) for text in (left, right))
    title = escape(f"{left}: {right}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{first + second:.0f}" height="20" '
        f'role="img" aria-label="{title}"><title>{title}</title>'
        f'<rect width="{first + second:.0f}" height="20" rx="4" fill="#323a47"/>'
        f'<path d="M{first:.0f} 0h{second - 4:.0f}a4 4 0 0 1 4 4v12a4 4 0 0 1-4 4H{first:.0f}z" '
        f'fill="{COLOURS[verdict.outcome]}"/><g fill="#fff" text-anchor="middle" '
        'font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{first / 2:.0f}" y="14">{escape(left)}</text>'
        f'<text x="{first + second / 2:.0f}" y="14">{escape(right)}</text></g></svg>\n')


def words(verdict: Verdict) -> str:
    """Return the verdict as a badge says it."""
    return in_words(verdict) if verdict.gb10 else f"{in_words(verdict)}; {NOT_GB10}"


def file_name(cell: str) -> str:
    """Return a badge's file name, safe whatever a record calls its cell."""
    if SAFE.fullmatch(cell):
        return cell
    return f"other-{hashlib.sha256(cell.encode('utf-8', 'replace')).hexdigest()[:16]}"
