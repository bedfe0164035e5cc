"""Stage 10, publish: an image's blobs and manifest to a registry, by its HTTP API.

In: blobs (digest, size, bytes or a file) and a reference. Out: the manifest's digest, and for each
blob whether it was there, was mounted from another repository or was sent. Nothing stands under a
tag before every blob is confirmed.
"""
