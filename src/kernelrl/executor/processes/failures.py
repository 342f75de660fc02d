"""How a process may fail to answer."""

from __future__ import annotations


class ProcessFailure(Exception):
    """A process did not answer as it should. The text says what it did."""

    final = True
    """False: the load on the machine, or somebody else's signal, may have been the cause."""


class ProcessDied(ProcessFailure):
    """It ended, or hung up, before it answered."""

    def __init__(self, reason: str, final: bool = True):
        super().__init__(reason)
        self.final = final


class ProcessTimeout(ProcessFailure):
    """It did not answer in time."""

    def __init__(self, final: bool = True) -> None:
        super().__init__("took too long")
        self.final = final


class ForgedMessage(ProcessFailure):
    """It answered something that it was not asked."""

    def __init__(self) -> None:
        super().__init__("answered what it was not asked")
