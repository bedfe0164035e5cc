"""Stage 7, layers: ``FetchedWheels`` in, ``ImageLayers`` out: tars named by their sha256.

``make_layers`` unpacks each wheel as an installer would, compiles it with the base's own Python,
and groups the results by what changes together.
"""
