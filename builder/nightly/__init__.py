"""The cycle over cells: newest wheels, build, smoke test, push, promote; one summary at the end.

In go cells; out come moved tags, changed locks, and one issue for each cell that failed.
"""
