"""Benchmarks: llama-benchy drives a server, its series are kept, and compared with a baseline."""
