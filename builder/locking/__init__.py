"""Stage 3, resolve: a cell in, its lock (exact wheels, patches and base) out."""
