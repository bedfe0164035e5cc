"""Upstream changes as locked data: declared, fetched, judged and applied exactly."""
