"""What a served model is asked: the battery's cases and a client in, one check a case out."""
