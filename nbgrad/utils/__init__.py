"""Utilities: pytrees, checkpointing, graph pictures."""
