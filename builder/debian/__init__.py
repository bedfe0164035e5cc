"""Debian packages: names of packages in, a root file system of exact ones as a normalised tar out.

``apt_sources`` finds the machine's mirror, ``resolve`` turns names into exact packages, ``fetch``
brings them into the cache, ``rootfs`` installs them into a folder and ``rootfs_tar`` packs it.
"""
