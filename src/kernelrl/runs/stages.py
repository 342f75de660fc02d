"""The stages: what each does, reads and makes. The command line and the pipeline are both driven by this table."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class Stage:
    """A command that Hydra configures."""

    summary: str
    module: str
    """Holds `run(cfg)`."""
    makes: str
    """The artefact."""
    overrides: tuple[str, ...]
    examples: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    """Stages whose artefacts it reads: in a sweep their folders stay where they are."""
    runs: tuple[str, ...] = ()
    """Stages that it runs; none: it is one of them itself."""

    def run(self, cfg: DictConfig) -> Path:
        """Run it in this process. Returns its artefact."""
        run: Callable[[DictConfig], Path] = imported(self.module).run
        return run(cfg)


def imported(name: str) -> ModuleType:
    """A module, imported while the collector of garbage rests.

    The libraries of training are a million objects that stay. The collector would look at them again and again while
    they are imported (a third of the time that this takes), and whenever a trainer calls it.
    """
    if name in sys.modules:
        return sys.modules[name]
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)  # else libraries complain that their objects outlive the interpreter


TRAINING = ("sft", "grpo")
"""Stages that several ranks may run together."""
JUDGING = ("curate", "grpo", "eval", "search")
"""Stages that need the executor."""
PIPELINE = ("curate", "sft", "grpo", "eval", "report")
"""In the order in which they run."""
STAGES = {
    "curate": Stage(
        summary="make tasks and verified (task, reasoning, kernel) triples",
        module="kernelrl.data.curate",
        makes="OUTPUT_DIR/data: sft_*.parquet (triples), tasks_*.parquet, README.md (the card), manifest.json; "
        "OUTPUT_DIR/verified: records/ (every proposal with its verdict)",
        overrides=(
            "tasks=NAME tasks.path=FOLDER",
            "teacher=NAME",
            "tasks.num_train=N",
            "tasks.num_heldout=N",
            "selection=NAME curate.folder=FOLDER  another selection of the same proposals: nothing is judged again",
        ),
        examples=(
            "kernelrl curate recipe=toy",
            "kernelrl curate tasks.num_train=500 seed=1",
            "kernelrl curate recipe=toy selection=diverse curate.folder=outputs/toy/diverse",
            "kernelrl curate recipe=toy curate.shard=1/2  (and 2/2 elsewhere, then: kernelrl curate merge recipe=toy)",
        ),
    ),
    "sft": Stage(
        summary="fine-tune a base model on the triples (TRL's SFTTrainer)",
        module="kernelrl.sft",
        makes="OUTPUT_DIR/sft: base/ (the model before), checkpoints/, final/ (model and tokenizer), log.jsonl",
        overrides=(
            "model=tiny|smollm2|hf",
            "sft.data=FOLDER",
            "sft.trainer.FIELD=VALUE (fields of trl.SFTConfig; + before those not listed)",
        ),
        examples=("kernelrl sft recipe=toy", "kernelrl sft model=hf model.name=Qwen/Qwen3-0.6B"),
        inputs=("curate",),
    ),
    "grpo": Stage(
        summary="train the policy on the executor's verdicts (TRL's GRPOTrainer)",
        module="kernelrl.grpo",
        makes="OUTPUT_DIR/grpo: checkpoints/, final/ (model and tokenizer), records/ (every completion), log.jsonl",
        overrides=(
            "reward=NAME",
            "grpo.policy=FOLDER",
            "grpo.trainer.FIELD=VALUE (fields of trl.GRPOConfig; + before those not listed)",
        ),
        examples=("kernelrl grpo recipe=toy", "kernelrl grpo -m recipe=toy seed=0,1,2"),
        inputs=("curate", "sft"),
    ),
    "eval": Stage(
        summary="compare policies on the held-out tasks: pass@k, fast_p, speedup",
        module="kernelrl.eval",
        makes="OUTPUT_DIR/eval/POLICY: records/, metrics.json; OUTPUT_DIR/results.json (not with import=)",
        overrides=(
            "eval.samples=K",
            "eval.temperature=T",
            "+eval.policies.NAME=FOLDER  one more than those of the run; eval/policies=none: without those",
            "eval.tasks=null tasks=kernelbench tasks.path=FOLDER  every task of a source",
            "channel=suite|kernelbench|tritonbench|multikernelbench|robust_kbench|hpc|transpile|surge  a benchmark",
            "checkpoints=RUN        every checkpoint of RUN, into another output_dir",
            "eval.limit=N           only the first N tasks; the results are marked as partial",
            "rejudge=RUN            judge what RUN has sampled anew, into another output_dir",
            "import=kernelbench_run FOLDER  judge KernelBench's run folder instead",
        ),
        examples=(
            "kernelrl eval recipe=toy",
            "kernelrl eval channel=hpc output_dir=outputs/hpc sft.folder=outputs/toy/sft grpo.folder=outputs/toy/grpo",
            "kernelrl eval import=kernelbench_run runs/NAME import.problems=KernelBench executor=kernelbench",
        ),
        inputs=("curate", "sft", "grpo"),
    ),
    "search": Stage(
        summary="the best kernel for each task within a budget, by any strategy",
        module="kernelrl.search",
        makes="OUTPUT_DIR/search: best/TASK.py, results.json, search.html (curves), records/ (every attempt), "
        "answers.jsonl; with -m: OUTPUT_DIR/search.html compares",
        overrides=(
            "strategy=single|best_of_n|refine|contrastive|coder_judge|feature_search|evolve|macro_micro",
            "policy=transformers|vllm|endpoint policy.model=NAME",
            "+policy@policies.ROLE=NAME policies.ROLE.model=NAME  another policy for one role",
            "tasks=NAME tasks.path=FOLDER, or search.tasks=FILE",
            "search.budget.candidates=N (or completions, tokens, device_seconds, cost; for each task)",
        ),
        examples=(
            "kernelrl search recipe=toy strategy=refine",
            "kernelrl search -m recipe=toy strategy=refine,best_of_n search.budget.candidates=8",
            "kernelrl search strategy=evolve tasks=kernelbench policy=endpoint policy.model=NAME",
        ),
        inputs=("curate", "sft", "grpo"),
    ),
    "report": Stage(
        summary="one HTML page: learning curves, funnel, speedups, sample kernels",
        module="kernelrl.eval.report",
        makes="OUTPUT_DIR/report.html, report_files/ (figures as SVG and PDF, tables as CSV, Markdown and LaTeX)",
        overrides=("report.file=FILE", "report.files=false  the page alone"),
        examples=("kernelrl report recipe=toy",),
        inputs=("curate", "sft", "grpo", "eval"),
    ),
    "pipeline": Stage(
        summary="curate, sft, grpo, eval and report in order",
        module="kernelrl.runs.pipeline",
        makes="all of the above in OUTPUT_DIR, and the table of results in the terminal",
        overrides=("recipe=NAME", "name=NAME", "seed=N", "every override of the stages"),
        examples=("kernelrl pipeline recipe=demo", "kernelrl pipeline recipe=toy output_dir=outputs/first"),
        runs=PIPELINE,
    ),
    "ablate": Stage(
        summary="GRPO once per combination of values, from one SFT policy, compared with intervals and p-values",
        module="kernelrl.runs.ablation",
        makes="OUTPUT_DIR/ablation.html, ablation.json; OUTPUT_DIR/VALUES/grpo, eval of every combination",
        overrides=(
            "reward=A,B,… seed=0,1,…   what is varied; any override of grpo, reward and executor may be",
            "hydra/launcher=submitit_slurm   one Slurm job per combination (pip install 'kernelrl[slurm]')",
        ),
        examples=(
            "kernelrl ablate recipe=demo reward=kernelrl,autotriton,rule seed=0,1",
            "kernelrl ablate recipe=demo grpo.trainer.loss_type=grpo,dr_grpo,dapo",
        ),
        inputs=("curate", "sft"),
        runs=("grpo", "eval"),
    ),
}
