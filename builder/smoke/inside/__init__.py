"""Scripts that run inside an image with its own Python; they import nothing of Sparkyard.

Each prints one line a result, ``@@ `` and JSON, so that the results before a crash are kept.
"""
