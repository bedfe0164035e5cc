"""Binaries: wheels, images and files in, facts about libraries and GPU code out."""
