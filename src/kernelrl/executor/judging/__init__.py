"""Judging: from a task and a candidate to a verdict."""
