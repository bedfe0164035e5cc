"""Exports: a recipe, a cell and an image in, text for the tool that serves it out.

``service`` decides once what is safe (address, user, capabilities, mounts); each other module
writes it for one tool. ``FORMATS`` in ``formats`` names them.
"""
