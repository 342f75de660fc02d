"""`kernelrl push RUN REPOSITORY`: a run's policy, its card and its data set go to the Hugging Face hub.

`kernelrl push RUN/data REPOSITORY` uploads the data set alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, HfApi, ModelCardData, get_token
from huggingface_hub.errors import HfUriError, HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from kernelrl import __version__
from kernelrl.commands.arguments import Parser
from kernelrl.console import make_console, set_up_logging
from kernelrl.data.publish import is_data_set, publishable
from kernelrl.errors import UserError
from kernelrl.eval.table import label
from kernelrl.records import write_atomically
from kernelrl.stage_folder import is_done, read_settings

USAGE = "kernelrl push RUN REPOSITORY [--stage grpo|sft] [--data REPOSITORY] [--private] [--dry-run]"
EPILOG = """\
Who uploads is known by HF_TOKEN or `hf auth login`. What is uploaded is put together in RUN/push first; --dry-run stops
there. The same command again uploads what has changed.

examples:
  kernelrl push outputs/toy me/kernels --dry-run
  kernelrl push outputs/toy me/kernels --data me/kernels-data --private
  kernelrl push outputs/toy/data me/kernels-data --dry-run"""


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parse(arguments)
    set_up_logging()
    for repository in filter(None, (options.repository, options.data)):
        try:
            validate_repo_id(repository)
        except HFValidationError as error:
            raise UserError(f"{repository}: no name of a repository: {error}") from None
    run: Path = options.run
    if is_data_set(run):
        parts = [(_gather_data(run, run.with_name(f"{run.name}-push")), options.repository, "dataset")]
        return _send(parts, options)
    stage = options.stage or next((name for name in ("grpo", "sft") if is_done(run / name)), "sft")
    if not is_done(run / stage):
        raise UserError(f"{run}: {stage} has not finished there; run `kernelrl {stage}` first, or name another --stage")
    model = run / "push" / "model"
    _gather(run / stage / "final", model)
    write_atomically(model / "README.md", make_card(run, stage, options.repository, options.data))
    parts = [(model, options.repository, "model")]
    if options.data:
        data = run / "data"
        if not is_done(data):
            raise UserError(f"{run}: no data set in {data}; leave out --data")
        parts.append((_gather_data(data, run / "push" / "data"), options.data, "dataset"))
    return _send(parts, options)


def _gather_data(data: Path, folder: Path) -> Path:
    """Check a data set and put its files together; says what can be loaded of it."""
    for name, split, rows in publishable(data):
        make_console().print(f"{name}, {split}: {rows:,} rows can be streamed", highlight=False, soft_wrap=True)
    _gather(data, folder)
    return folder


def _send(parts: list[tuple[Path, str, str]], options: argparse.Namespace) -> int:
    """Upload folders, each to its repository, unless that is only tried."""
    for folder, repository, kind in parts:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        size = sum(path.stat().st_size for path in files) / 1e6
        make_console().print(
            f"{kind} {repository}: {len(files)} files, {size:,.1f} MB, in {folder}", highlight=False, soft_wrap=True
        )
        if not options.dry_run:
            _upload(folder, repository, kind, options.private)
    return 0


def make_card(run: Path, stage: str, repository: str, data: str | None) -> str:
    """The model's card: front matter, what it is, its evaluation with intervals, and what it was trained on."""
    settings = {name: read_settings(run / name) for name in ("sft", "grpo") if is_done(run / name)}
    base = settings.get("sft", {}).get("model", {}).get("name")
    front = ModelCardData(
        library_name="transformers",
        pipeline_tag="text-generation",
        base_model=base if isinstance(base, str) and "/" in base and not Path(base).exists() else None,
        datasets=[data] if data else None,
        tags=["kernelrl", "code", "gpu-kernels"],
        model_name=repository.rpartition("/")[2],
        eval_results=_eval_results(run / "results.json", stage, data) or None,
    )
    parts = [
        f"---\n{front.to_yaml()}\n---",
        f"# {repository.rpartition('/')[2]}",
        "A policy that writes kernels to replace PyTorch programs (in KernelBench's format), trained with kernelrl "
        f"{__version__}. Its rewards are verdicts: every kernel was compiled, run and checked against the reference.",
        "## Evaluation",
        *_evaluation(run / "results.json"),
        "## Training",
        *_training(settings, stage),
        "## Data",
        *_data(run / "data", data),
    ]
    return "\n\n".join(parts) + "\n"


def _eval_results(path: Path, policy: str, data: str | None) -> list[EvalResult]:
    """The figures of the uploaded policy as the hub reads them (`model-index`); none of a part of the tasks.

    Args:
        data: repository of the data set whose held-out tasks these are.
    """
    results = json.loads(path.read_text()) if path.exists() else {"policies": {}}
    figures = results["policies"].get(policy, {"figures": {}})["figures"]
    if results.get("partial"):
        return []
    settings = results.get("eval", {})
    name = settings.get("channel") or "held-out tasks"
    return [
        EvalResult(
            task_type="text-generation",
            task_name="Kernel generation",
            dataset_type=data if data and not settings.get("channel") else "kernelrl",
            dataset_name=f"{name}, dialect={results['dialect']}",
            metric_type=figure,
            metric_name=label(figure).partition(",")[0],
            metric_value=estimate["value"],
            metric_args={"low": estimate.get("low"), "high": estimate.get("high"), "samples": settings.get("samples")}
            | {"temperature": settings.get("temperature")},
        )
        for figure, estimate in figures.items()
        if estimate["value"] is not None
    ]


def _evaluation(path: Path) -> Iterator[str]:
    if not path.exists():
        yield "Not evaluated yet."
        return
    results = json.loads(path.read_text())
    policies: dict[str, Any] = results["policies"]
    yield (
        f"On held-out tasks, {results['eval']['samples']} samples of each at temperature "
        f"{results['eval']['temperature']}; 95 % intervals in brackets. `dialect={results['dialect']}`, "
        f"judged on `{results['machine']}`."
    )
    if partial := results.get("partial"):
        yield f"Partial: the first {partial['num']} of {partial['of']} tasks."
    names = list(dict.fromkeys(name for summary in policies.values() for name in summary["figures"]))
    rows = [[name, *(_figure(summary["figures"].get(name)) for summary in policies.values())] for name in names]
    yield _table(["", *policies], [row for row in rows if any(row[1:])])


def _figure(estimate: dict[str, float | None] | None) -> str:
    if estimate is None or estimate["value"] is None:
        return ""
    low, high = estimate.get("low"), estimate.get("high")
    interval = "" if low is None or high is None else f" [{low:.3g}, {high:.3g}]"
    return f"{estimate['value']:.3g}{interval}"


def _training(settings: dict[str, dict[str, Any]], stage: str) -> Iterator[str]:
    for name, each in settings.items():
        trainer = each["trainer"]
        rows = [[f"`{key}`", f"`{value}`"] for key, value in trainer.items()]
        yield f"### {name}" + (f", reward `{each['reward']['name']}`" if name == "grpo" else "")
        yield _table(["field of TRL's trainer", "value"], rows)
        if name == stage:
            return


def _data(folder: Path, repository: str | None) -> Iterator[str]:
    if repository:
        yield f"[{repository}](https://huggingface.co/datasets/{repository}), with its own card."
    elif (folder / "README.md").exists():
        yield "A data set of this run, not uploaded with it."
    else:
        yield "Not known."


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _gather(source: Path, folder: Path) -> None:
    """Put the files of a folder into another, by link where the disk has them: they may be large."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in sorted(source.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            to = folder / path.relative_to(source)
            to.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, to)
            except OSError:
                shutil.copy2(path, to)


def _upload(folder: Path, repository: str, kind: str, private: bool) -> None:
    if get_token() is None:
        raise UserError("the hub wants to know who uploads: `hf auth login`, or set HF_TOKEN")
    hub = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    try:
        hub.create_repo(repository, repo_type=kind, private=private or None, exist_ok=True)
        hub.upload_folder(
            repo_id=repository, repo_type=kind, folder_path=folder, commit_message=f"kernelrl push, {__version__}"
        )
    except (HfUriError, HFValidationError, OSError) as error:  # its HTTP errors are OSErrors
        raise UserError(f"{kind} {repository}: the hub refused it: {str(error).strip().splitlines()[0]}") from None


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="kernelrl push",
        usage=USAGE,
        description="Upload a run's policy, with a card that has its evaluation and training, and its data set.",
        epilog=EPILOG,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of the run, or of a data set")
    parser.add_argument("repository", metavar="REPOSITORY", help="of the model on the hub, e.g. me/kernels")
    parser.add_argument("--stage", choices=["grpo", "sft"], help="whose policy (default: the last that has finished)")
    parser.add_argument("--data", metavar="REPOSITORY", help="upload the data set too, to this repository")
    parser.add_argument("--private", action="store_true", help="repositories that do not exist yet are made private")
    parser.add_argument("--dry-run", action="store_true", help="put together what would be uploaded, in RUN/push")
    return parser.parse_args(arguments)
