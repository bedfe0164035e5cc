"""The content-addressed store: wheels and layers in, trusted files by digest out."""
