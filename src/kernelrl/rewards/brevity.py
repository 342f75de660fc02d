"""Brevity reward: how short is the reasoning that led to a right kernel?"""

from kernelrl.candidate import Completion
from kernelrl.rewards import Context, reward
from kernelrl.verdict import Verdict


@reward("brevity")
def brevity(completion: Completion, verdict: Verdict, context: Context) -> float:
    """1 for the shortest reasoning among the correct completions of the group, 0 for the longest and for wrong ones.

    In between `(longest - length) / (longest - shortest)`, in characters. One correct completion alone, or several of
    one length, earn 1: there is nothing shorter to ask for.

    Source: ConCuR (arXiv 2510.07356), which selects the shortest chain of thought among correct kernels.
    """
    if not verdict.correct:
        return 0.0
    lengths = [len(each.reasoning) for each, judged in context.group if judged.correct] or [len(completion.reasoning)]
    shortest, longest = min(lengths), max(lengths)
    return (longest - len(completion.reasoning)) / (longest - shortest) if longest > shortest else 1.0
