"""Stage 5, gate: facts of wheels and of a base in, findings and a verdict out.

Will this closure load on this base and this GPU? Decided without a GPU, before a layer is made.
"""
