"""Runs: the stages and their order, what is checked before one starts, ablations, and runs on a cluster."""
