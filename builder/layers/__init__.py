"""Stage 7, layers: locked wheels in, normalised tars named by their digest out."""
