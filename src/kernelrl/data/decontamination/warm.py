"""Imported by the process that workers are forked from: what torch imports on first use is there before any task."""

import atexit
import gc

gc.disable()  # it would look at what is imported again and again, and all of that stays

import torch  # noqa: E402

from kernelrl.data.decontamination.graph import canonical_hash  # noqa: E402
from kernelrl.data.decontamination.trace import trace  # noqa: E402

PROGRAM = """\
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.hardswish(x @ x).clamp(min=0.0)
def get_inputs():
    return [torch.randn(4, 4)]
def get_init_inputs():
    return []
"""

torch.set_num_threads(1)
canonical_hash(trace(PROGRAM), sizes=False)
gc.collect()
gc.freeze()  # a worker that looked at these objects would also copy the pages that they lie in
gc.enable()
atexit.register(gc.unfreeze)  # else libraries complain that their objects outlive the interpreter
