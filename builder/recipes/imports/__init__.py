"""Imports: a recipe file of sparkrun or eugr in, a draft of ours and what it lacks out."""
