"""The sub-commands: one module a verb, each with ``add_parser`` and ``execute``."""
