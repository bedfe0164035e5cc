"""Stage 9, smoke: a built image, its lock and a recipe in; a verdict with its record out.

Level 1a looks into the image, 1b generates text in process, 2 asks the real server.
"""
