"""Search: the best kernel for each task within a budget, by any strategy."""

from kernelrl.search.stage import run

__all__ = ["run"]
