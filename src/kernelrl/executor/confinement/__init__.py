"""Confinement: what a process that runs untrusted text may still do."""
