"""Stage 10, record: checks and facts of a run in, evidence on disk out."""
