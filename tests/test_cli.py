"""The command line: help, dispatch, exit codes, sweeps; no traceback for what a user can get wrong."""

import logging
import subprocess
import sys

import pytest

from kernelrl import cli
from kernelrl.console import set_up_logging
from kernelrl.runs.stages import STAGES


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments)
    captured = capsys.readouterr()
    assert isinstance(exit_.value.code, int)
    return exit_.value.code, captured.out, captured.err


def test_help_has_a_line_for_every_command(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for command in [*cli.STAGES, *cli.TOOLS]:
        assert sum(line.startswith(f"  {command} ") for line in out.splitlines()) == 1


def test_no_command_shows_the_help_and_fails(capsys):
    code, out, _ = run(capsys)
    assert code == 2 and "commands:" in out


@pytest.mark.parametrize("command", STAGES)
def test_help_of_a_stage(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    for part in ("makes:", "main overrides:", "options:", "examples:", STAGES[command].summary):
        assert part in out


@pytest.mark.parametrize("command", cli.TOOLS)
def test_help_of_a_tool(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0 and "usage: kernelrl " + command in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pipline"], "error: unknown command 'pipline'; did you mean 'pipeline'?\n"),
        (
            ["xyz"],
            "error: unknown command 'xyz'; "
            "choose one of curate, sft, grpo, eval, search, report, pipeline, ablate, launch, check, compare, records, "
            "reward, status, surrogate, plan, push, executor, decontaminate, doctor\n",
        ),
        (["sft", "modle=tiny"], "error: unknown override 'modle'; did you mean 'model'?\n"),
        (["sft", "recipe=tox"], "error: no option 'tox' in config group 'recipe'; did you mean 'toy'?\n"),
        (["sft", "recipe"], "error: 'recipe' is not an override; write key=value, e.g. seed=1 or recipe=toy\n"),
        (["sft", "model=3"], "error: model=3: model is a config group; choose one of hf, smollm2, tiny\n"),
        (["sft", "--bogus"], "error: unrecognized arguments: --bogus; see `kernelrl COMMAND --help`\n"),
        (["sft", "name=${nam}"], "error: Interpolation key 'nam' not found; full_key: curate.folder\n"),
        (["curate", "dialect=cobol"], "error: dialect 'cobol' is not known; choose one of cpp, cuda, python, triton\n"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert run(capsys, *arguments) == (2, "", message)
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_the_config_is_printed_and_nothing_runs(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "grpo", "seed=5", "--cfg", "job", "name=x")
    assert code == 0 and "seed: 5" in out and "name: x" in out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [("--config-dir", "mine"), ("--config-dir=mine",), ("-cd", "mine")])
def test_the_folder_of_an_option_is_no_folder_to_import(capsys, monkeypatch, tmp_path, options):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_run_job", lambda command, cfg: f"{cfg.seed} {cfg.get('import')}")
    (tmp_path / "mine" / "recipe").mkdir(parents=True)
    (tmp_path / "mine" / "recipe" / "my.yaml").write_text("# @package _global_\nseed: 7\n")
    code, out, _ = run(capsys, "eval", *options, "recipe=my")
    assert (code, out) == (0, "7 None\n")


def test_a_folder_is_imported_also_where_an_option_names_the_same_one(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_run_job", lambda command, cfg: cfg["import"].folder)
    (tmp_path / "mine").mkdir()
    code, out, _ = run(capsys, "eval", "--config-dir", "mine", "import=kernelbench_run", "mine")
    assert (code, out) == (0, "mine\n")


def test_a_sweep_gives_every_job_a_folder_named_by_its_overrides(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_run_job", lambda command, cfg: f"{cfg.grpo.folder} {cfg.grpo.policy} {cfg.grpo.data}")
    code, out, _ = run(capsys, "grpo", "-m", "seed=0,1", "output_dir=out")
    assert code == 0
    assert out.splitlines() == [
        "out/seed=0/grpo out/sft/final out/data",
        "out/seed=1/grpo out/sft/final out/data",
    ]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["multirun.yaml"]


@pytest.mark.parametrize(
    "module",
    [
        "runs.pipeline",
        "commands.check",
        "eval.stage",
        "eval.report",
        "search.stage",
        "executor.engines.local",
        "executor.engines.ray_service",
    ],
)
def test_what_does_not_compute_does_not_wait_for_torch(module):
    if "ray" in module:
        pytest.importorskip("ray")
    code = f"import sys; from kernelrl import cli; import kernelrl.{module}; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_a_row_that_is_left_out_is_not_told_with_its_whole_task():
    set_up_logging()
    logger = logging.getLogger("trl.trainer.grpo_trainer")

    def is_told(text):
        return bool(logger.filter(logger.makeRecord(logger.name, logging.WARNING, "", 0, text, (), None)))

    assert not is_told("All reward functions returned None for the following kwargs:\n{'task': '...'}")
    assert is_told("something else")


@pytest.mark.parametrize(
    ("last", "code", "error"), [("sys.exit(3)", 3, ""), ("1 / 0", 1, "ZeroDivisionError"), ("", 0, "")]
)
def test_a_process_ends_with_its_code_when_all_that_is_to_run_at_its_end_has_run(last, code, error):
    program = f"""
import atexit, sys
from kernelrl.runs.ending import ending_at_once
with ending_at_once():
    atexit.register(print, "at the end")
    print("said")
    {last}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split("\n")) == (code, ["said", "at the end", ""])
    assert error in done.stderr if error else not done.stderr
