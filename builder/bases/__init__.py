"""Base images: a base of the matrix in, a locked image on the engine out."""
