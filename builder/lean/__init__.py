"""Lean: a library in, the same library without the GPU code that one GPU can never run out."""
