"""`kernelrl COMMAND [overrides]`: dispatch to the stages, and the help texts.

Stages are imported when they run: `--help` and `doctor` do not wait for torch.
"""

from __future__ import annotations

import difflib
import gc
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kernelrl import __version__
from kernelrl.errors import KernelRLError, UserError
from kernelrl.runs.ending import ending_at_once
from kernelrl.runs.stages import STAGES, imported

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class Tool:
    """A command with options of its own."""

    summary: str
    module: str
    """Holds `main(arguments) -> exit code`."""


TOOLS = {
    "launch": Tool(
        "run a command on a cluster: `launch pipeline launcher=slurm nodes=2 …`", "kernelrl.commands.launch"
    ),
    "check": Tool(
        "judge one kernel, or a file of them, against a KernelBench-format reference", "kernelrl.commands.check"
    ),
    "compare": Tool(
        "is one policy better or worse than another on the same tasks, from finished results",
        "kernelrl.commands.compare",
    ),
    "records": Tool(
        "look at what a run wrote and how it was judged; export some of it for SFT", "kernelrl.commands.records"
    ),
    "reward": Tool(
        "`reward replay RUN`: what other rewards would have paid for a run's records", "kernelrl.commands.reward"
    ),
    "status": Tool("how a run is doing: stages, rates, time left, nodes, errors, logs", "kernelrl.commands.status"),
    "surrogate": Tool(
        "fit a model on a run's verdicts that predicts them, to filter candidates of a search before hardware",
        "kernelrl.commands.surrogate",
    ),
    "plan": Tool(
        "how many executor workers hide the reward of a run; `plan recipe=NAME`: whether a training fits its devices",
        "kernelrl.commands.plan",
    ),
    "push": Tool("upload a run's policy, card and data set to the Hugging Face hub", "kernelrl.commands.push"),
    "executor": Tool(
        "`executor serve NAME`: a shared executor on a Ray cluster, for several runs", "kernelrl.commands.executor"
    ),
    "decontaminate": Tool(
        "which training tasks are in a benchmark, however they are written", "kernelrl.commands.decontaminate"
    ),
    "doctor": Tool("show what this machine can do, and what would have to be installed", "kernelrl.commands.doctor"),
}
SHARED_OVERRIDES = """\
  recipe=NAME          a set of choices that belong together: demo (20 minutes on two cores), toy (3 minutes)
  output_dir=FOLDER    where everything goes (default outputs/NAME); the same command resumes there
  name=NAME seed=N dialect=cpp|triton|cuda|python model=NAME executor=NAME reward=NAME
  tracker=wandb|tensorboard|trackio|none"""
SHARED_OPTIONS = """\
  --cfg job            print the config and stop; with --resolve, interpolations filled in
  -m, --multirun       run once per combination of comma-separated values, each in a folder named by what is varied
  --config-dir FOLDER  a folder with configs of your own"""


def console_script() -> None:
    """The command `kernelrl`."""
    with ending_at_once():
        main()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command: the arguments of this process, or these."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # torch's idle threads sleep: where anything else runs, spinning ones make training ten times slower
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    gc.disable()  # until the command is imported
    try:
        code = _dispatch(words)
    except KernelRLError as error:
        code = _print_error(error)
    except BrokenPipeError:  # the reader of our output, e.g. `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    finally:
        gc.enable()
    sys.exit(code)


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_top_help())
        return 0 if words else 2
    command, *rest = words
    if command in ("-V", "--version", "version"):
        print(f"kernelrl {__version__}")
        return 0
    if command in TOOLS:
        tool: Callable[[list[str]], int] = imported(TOOLS[command].module).main
        return tool(rest)
    if command not in STAGES:
        close = difflib.get_close_matches(command, [*STAGES, *TOOLS], n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join([*STAGES, *TOOLS])}"
        raise UserError(f"unknown command {command!r}; {hint}")
    if "-h" in rest or "--help" in rest:
        print(_stage_help(command))
        return 0
    _run_stage(command, rest)
    return 0


def _run_stage(command: str, rest: list[str]) -> None:
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import OmegaConf

    from kernelrl import configs
    from kernelrl.console import set_up_logging
    from kernelrl.stage_folder import require_writable
    from kernelrl.training import interruption

    options, overrides = _split(rest)
    if command == "eval":
        overrides = [f"import.folder={word}" if Path(word).is_dir() else word for word in overrides]
    if command == "curate" and overrides[:1] == ["merge"]:
        overrides = ["curate.merge=true", *overrides[1:]]
    configs.check_overrides(overrides)
    set_up_logging()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra hands its errors to us instead of printing them
    varied = configs.swept(overrides)
    printing = bool({"--cfg", "-c"} & set(options))
    comparing = command == "ablate" and not printing
    if comparing:
        from kernelrl.runs import ablation

        ablation.prepare(overrides)
        options = ["--multirun", *options]
    if varied:  # Hydra writes to this folder before a job can check it
        fixed = [word for word in overrides if word.partition("=")[0] not in varied]
        require_writable(configs.compose_config(command, fixed).output_dir, "choose another output_dir=")
    sys.argv = [f"kernelrl {command}", *options, *overrides]

    @hydra.main(config_path=str(configs.config_dir()), config_name=command, version_base=configs.HYDRA_VERSION_BASE)
    def run(cfg: DictConfig) -> None:
        try:
            if HydraConfig.get().mode == RunMode.MULTIRUN:
                words = [word for word in HydraConfig.get().overrides.task if word.partition("=")[0] in varied]
                _move_to_sweep_folder(cfg, STAGES[command].inputs, ",".join(words))
            else:
                interruption.install()
            configs.check(cfg, command, overrides)
            OmegaConf.to_container(cfg, resolve=True)  # an interpolation that leads nowhere is found before the work
            print(_run_job(command, cfg))
        except KernelRLError as error:
            sys.exit(_print_error(error))  # Hydra lets SystemExit pass; to other exceptions it adds lines of its own
        except configs.ConfigError as error:
            sys.exit(_print_error(configs.explain(error, command)))

    try:
        run()
    except configs.ConfigError as error:
        raise configs.explain(error, command) from None
    if comparing:
        print(ablation.finish(configs.compose_config(command, ablation.fixed(overrides)).output_dir))
    elif command == "search" and varied and not printing:
        from kernelrl.search import page

        fixed = [word for word in overrides if word.partition("=")[0] not in varied]
        print(page.finish(configs.compose_config(command, fixed).output_dir))


def _run_job(command: str, cfg: DictConfig) -> Path | str:
    from kernelrl.runs.preflight import require_all

    require_all(cfg, STAGES[command].runs or (command,))
    if cfg.launcher.name == "slurm":
        from kernelrl.runs.launch import slurm

        return slurm.launch(cfg, command)
    from kernelrl.runs.launch import run_stage

    return run_stage(command, cfg)


def _print_error(error: KernelRLError) -> int:
    print(f"error: {error}", file=sys.stderr)
    return error.exit_code


class _Word(str):
    """A word of the command line, told by its identity from an equal one that stands elsewhere."""


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Hydra's options with their values, and the overrides, wherever they stand between the options."""
    from hydra._internal.utils import get_args_parser

    def fail(message: str) -> NoReturn:
        raise UserError(f"{message}; see `kernelrl COMMAND --help`")

    parser = get_args_parser()
    parser.error = fail  # type: ignore[method-assign]
    told_apart = [_Word(word) for word in words]
    overrides = parser.parse_intermixed_args(told_apart).overrides
    found = {id(word) for word in overrides}
    return [str(word) for word in told_apart if id(word) not in found], [str(word) for word in overrides]


def _move_to_sweep_folder(cfg: DictConfig, inputs: Sequence[str], name: str) -> None:
    """Give a job of a sweep a folder of its own; what it reads stays where it was."""
    for stage in inputs:
        cfg[stage].folder = str(cfg[stage].folder)
    cfg.output_dir = str(Path(cfg.output_dir) / name.replace("/", "_"))


def _top_help() -> str:
    summaries = {name: entry.summary for name, entry in STAGES.items()} | {n: tool.summary for n, tool in TOOLS.items()}
    lines = [f"  {name:<15}{summary}" for name, summary in summaries.items()]
    return (
        "usage: kernelrl COMMAND [key=value ...]\n\n"
        "kernelrl trains language models to write kernels: every kernel is compiled, run, checked and timed.\n\n"
        "commands:\n" + "\n".join(lines) + "\n\n"
        "Start with `kernelrl doctor`, then `kernelrl pipeline recipe=toy`. `kernelrl COMMAND --help` says more."
    )


def _stage_help(command: str) -> str:
    stage = STAGES[command]
    return (
        f"usage: kernelrl {command} [key=value ...] [options]\n\n"
        f"{command}: {stage.summary}.\n\n"
        f"makes:\n  {stage.makes}\n\n"
        f"main overrides:\n" + "\n".join(f"  {line}" for line in stage.overrides) + "\n"
        f"{SHARED_OVERRIDES}\n\n"
        f"options:\n{SHARED_OPTIONS}\n\n"
        "examples:\n" + "\n".join(f"  {line}" for line in stage.examples)
    )


if __name__ == "__main__":
    console_script()
