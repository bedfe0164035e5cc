"""The verdict of a running image, by level: what is in it, what it answers, how it serves."""
