"""Format reward: reasoning first, then one kernel and nothing else."""

from kernelrl.candidate import Completion
from kernelrl.rewards import Context, reward
from kernelrl.verdict import Verdict


@reward("format")
def well_formed(completion: Completion, verdict: Verdict, context: Context) -> float:
    """1 if the completion reasons in `<think>…</think>` and then answers with one block, the kernel, that ends it."""
    ends_in_block = completion.answer.rstrip().endswith(("```", "~~~"))
    return float(
        bool(completion.reasoning) and completion.source is not None and len(completion.blocks) == 1 and ends_in_block
    )
