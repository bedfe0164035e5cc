"""The static verdict: will this closure load on this base and GPU? Findings, no GPU needed."""
