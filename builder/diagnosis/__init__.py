"""Diagnosis: the log of a server and failed checks in, the known failures that they show out.

``issues/*.toml`` is the catalogue, ``catalogue`` reads it, ``matching`` searches, ``versions`` and
``log_file`` read logs, and ``names`` explains every name that this project gives to a failure.
"""
