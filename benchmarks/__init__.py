"""Ratios of commands, side by side in one run; see docs/benchmarks.md."""
