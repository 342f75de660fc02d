"""The executor: compile, check, time, and don't be fooled (docs/executor.md)."""

from kernelrl.executor.api import Executor, ExecutorSettings, Request
from kernelrl.executor.engines import make_executor

__all__ = ["Executor", "ExecutorSettings", "Request", "make_executor"]
