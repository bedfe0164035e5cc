"""What runs inside the build's container, on the base's own Python and nothing else."""
