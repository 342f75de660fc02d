"""Judge reward: the opinion of a verifier, a language model that reads the kernel."""

from kernelrl.candidate import Completion
from kernelrl.rewards import Context, reward
from kernelrl.verdict import Verdict


@reward("judge")
def judge(completion: Completion, verdict: Verdict, context: Context) -> float:
    """The verifier's opinion whether this is a genuine kernel, 0 to 1 (`grpo.verifier`); 1 where it was not asked.

    Meant as a gate beside `rule`: a soft verification of what no rule names, as the judge model in TritonRL's `valid`
    (arXiv 2510.17891) and the soft verifiers of robust-kbench (arXiv 2509.14279). A verifier that cannot be reached
    costs nobody anything: its opinion is then not known.
    """
    return 1.0 if context.opinion is None else context.opinion
