"""Recipes: a model's pin in, the exact server command and what its log must show out."""
