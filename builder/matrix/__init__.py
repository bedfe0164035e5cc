"""Stages 1 and 2, load and expand: ``matrix.toml`` in, frozen models and cells out."""
