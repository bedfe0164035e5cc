"""Scripts that run in an image, by the image's own Python; they import nothing of Sparkyard.

Each prints one line a result, ``@@ `` and JSON, so that a crash leaves what was seen before it.
"""
