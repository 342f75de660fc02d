"""The contest: all that runs inside of an untrusted process."""
