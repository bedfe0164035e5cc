"""Package indexes: the user's own configuration in, links to wheels and their bytes out."""
