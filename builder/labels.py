"""Names of the labels that images and containers of ours carry; the one place that spells them."""

from __future__ import annotations

PREFIX = "org.sparkyard."
OCI = "org.opencontainers.image."  # the open container initiative's own names
INPUTS = PREFIX + "inputs"  # digest of all that an image was made from
CELL = PREFIX + "cell"
LOCK = PREFIX + "lock"
STATUS = PREFIX + "status"  # locked or unlocked
PATCHES = PREFIX + "patches"  # the sha256 of each locked diff, in order
PATCHED = PREFIX + "patched."  # and the distribution: the version that a patched image has
NCCL = PREFIX + "nccl.sha256"  # of the NCCL library inside; absent where there is none
SAMPLE = PREFIX + "sample"  # a record that was made up to show a report, not measured
VERSION = PREFIX + "version."  # and the distribution: the version that the lock has
RUN = PREFIX + "run"  # the process that owns a container
SERVE = PREFIX + "serve."  # what follows names one fact of a server that was started to stay
