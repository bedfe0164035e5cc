"""Stage 11, promote: moving tags that only ever point at an image that passed.

In go an image in a registry and the records that are attached to it; out come a moved tag and an
entry in the tag's log, which lies in the registry beside the image.
"""
