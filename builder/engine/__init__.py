"""The Docker engine: bake definitions and run specifications in, images and results out."""
