"""Stage 4, fetch: a lock in, its wheels in the store out."""
