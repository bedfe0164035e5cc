"""Stage 4, fetch: a ``Lock`` in, ``FetchedWheels`` out.

``fetch_lock`` takes each wheel from any configured source that has the locked bytes.
"""
