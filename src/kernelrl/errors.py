"""Whose fault it is: the one taxonomy of errors, raised at boundaries and never swallowed.

A bad candidate is data, not an exception: it becomes a `Verdict`. Everything else that can go wrong is one of these.
"""


class KernelRLError(Exception):
    """Base of every error that kernelrl raises on purpose; the command line prints its text as one line."""

    exit_code = 2


class UserError(KernelRLError):
    """What the user gave cannot be used: a path, an override, a value. Names the thing, the value, the way out."""


class TaskError(KernelRLError):
    """A task is not a KernelBench-format program, or its reference does not run."""


class InfrastructureError(KernelRLError):
    """The machine or the executor failed: nothing was learnt about the candidate, and nothing may be concluded."""

    exit_code = 3
