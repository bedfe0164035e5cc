"""The store, which stages 4 to 8 share: bytes in, files in the cache by their sha256 out.

``Store`` keeps wheels and layers; a file gets its name only after it was hashed. ``prune`` removes
what nobody has needed lately, ``build_contexts`` names the layers' folder for the engine.
"""
