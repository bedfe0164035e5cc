"""Benchmarks: how fast a server is, and whether it is slower than before.

In go a server (an image's, or one that is already running), the grid to measure and, if wanted, the
record of an earlier benchmark; out come series of samples, a comparison, and checks in a record.
"""
