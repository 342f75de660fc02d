"""Engines: where judging happens, on this machine or on the nodes of a Ray cluster."""
