"""``smoke --soak``: mixed load for minutes, and what of a server gets worse with time."""
