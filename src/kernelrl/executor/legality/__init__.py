"""Legality: what a genuine kernel may take from the library."""
