"""Doctor: this host in, what makes it unfit to serve a model out. It reads and changes nothing."""
