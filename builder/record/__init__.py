"""Stage 10, record: the evidence of a run, kept as one JSON document.

In go the checks, facts and figures of a smoke test or benchmark, as they come; out come documents
in the cache folder that are complete at every moment, and readers that refuse a document which is
damaged, altered, or contradicts itself.
"""
