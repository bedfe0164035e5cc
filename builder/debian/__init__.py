"""Debian packages: package names in, exact packages and a root file system out."""
