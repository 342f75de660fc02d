"""What a user can get wrong about folders and config files: one line that names the thing and the way out."""

from pathlib import Path

import pytest

from kernelrl import cli
from kernelrl.records import Ledger
from kernelrl.stage_folder import SETTINGS, open_stage
from test_replay import RECORDS

UNWRITABLE = "/proc/kernelrl"
"""Not even root can make a folder here."""


@pytest.fixture
def refused(capsys, monkeypatch, tmp_path):
    """Runs a command in an empty folder. Returns its one line of error; nothing else has come of it."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(SystemExit) as exit_:
            cli.main(words)
        captured = capsys.readouterr()
        assert exit_.value.code == 2 and captured.out == ""
        assert captured.err.startswith("error: ") and captured.err.count("\n") == 1, captured.err
        assert sorted(tmp_path.rglob("*")) == before, "nothing is left behind"
        return captured.err

    return run


@pytest.mark.parametrize("command", ["curate", "sft", "grpo", "eval", "report", "pipeline"])
def test_an_output_folder_that_cannot_be_written(refused, command):
    message = refused(command, f"output_dir={UNWRITABLE}", "tracker=none")
    assert message.startswith(f"error: cannot write to {UNWRITABLE}: ") and "choose another output_dir=" in message


def test_a_working_folder_that_cannot_be_written(refused, monkeypatch):
    monkeypatch.chdir("/proc")
    assert "cannot write to /proc/outputs/kernelrl: " in refused("sft", "tracker=none")


def test_a_sweep_and_an_ablation_that_cannot_be_written(refused):
    for words in (["grpo", "-m", "seed=0,1"], ["ablate", "seed=0,1"]):
        assert "choose another output_dir=" in refused(*words, f"output_dir={UNWRITABLE}", "tracker=none")


def test_a_file_where_a_folder_belongs(refused, tmp_path):
    (tmp_path / "mine").touch()
    assert "mine/out: Not a directory; choose another output_dir=" in refused("sft", "output_dir=mine/out")


def test_a_cache_that_cannot_be_written(refused, kernel_files):
    files = str(kernel_files["reference"]), str(kernel_files["right"])
    message = refused("check", *files, f"executor.cache_dir={UNWRITABLE}")
    assert f"cannot write to {UNWRITABLE}: " in message and "choose another executor.cache_dir=" in message


@pytest.mark.parametrize(
    "words",
    [
        ["status", "run", "--html", f"{UNWRITABLE}/status.html"],
        ["decontaminate", "train.py", "benchmark.py", "--output", UNWRITABLE],
        ["records", "run", "--export", UNWRITABLE],
    ],
)
def test_what_a_tool_cannot_write(refused, tmp_path, words):
    Ledger(tmp_path / "run" / "grpo" / "records").append(RECORDS)
    assert f"cannot write to {UNWRITABLE}: " in refused(*words)


@pytest.mark.parametrize("word", ["name=123", "name=1e5", "name=true", "output_dir=2024"])
def test_a_name_that_is_read_as_a_number(refused, word):
    key = word.partition("=")[0]
    assert f"not as text; give it in both quotes: \"{key}='TEXT'\"" in refused("curate", word)


def test_a_name_of_digits_in_quotes(capsys):
    with pytest.raises(SystemExit):
        cli.main(["curate", "name='123'", "--cfg", "job", "--resolve"])
    assert "output_dir: outputs/123\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "executor: {trails: 3}",
            "executor.trails: this version has no such setting; a config file of another version",
        ),
        ("executor: {trails: 3}", "did you mean 'executor.trials'?"),
        ("sft: {epochs: 3}", "sft.epochs: this version has no such setting"),
        ("curator: {num_triples: 3}", "curator: this version has no such setting"),
        ("sft: 3", "sft=3: sft is a group of settings"),
        ("defaults: [override /judge: local]", "unknown override 'judge'"),
        ("name: [old", "old.yaml, line 3: expected"),
    ],
)
def test_a_config_file_of_an_older_version(refused, tmp_path, text, message):
    file = tmp_path / "configs" / "recipe" / "old.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(f"# @package _global_\n{text}\n")
    assert message in refused("sft", "recipe=old", "--config-dir", "configs")


def test_a_config_file_that_lacks_a_setting(refused, tmp_path):
    file = tmp_path / "configs" / "executor" / "old.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("engine: local\n")
    message = refused("sft", "executor=old", "--config-dir", "configs")
    assert "executor.cache_dir is not set: a config file of yours for 'executor' lacks it" in message


def test_a_key_that_is_added_on_the_command_line_is_meant(capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["sft", "+eval.policies.mine=some/folder", "+note=mine", "--cfg", "job"])
    assert exit_.value.code == 0


def test_the_folder_of_a_stage_is_no_output_folder(refused, tmp_path):
    with open_stage("grpo", tmp_path / "run" / "grpo", {"seed": 0}):
        pass
    message = refused("sft", "output_dir=run/grpo", "tracker=none")
    assert "output_dir=run/grpo is the folder of one stage; give the folder of the whole run" in message


def test_the_folder_of_another_stage(tmp_path):
    with open_stage("grpo", tmp_path, {"seed": 0}) as stage:
        stage.finish({})
    with (
        pytest.raises(cli.UserError, match=r"sft: folder .* belongs to grpo; choose another output_dir="),
        open_stage("sft", tmp_path, {"seed": 0}),
    ):
        pass


def test_a_stage_folder_of_the_first_version_goes_on(tmp_path: Path):
    (tmp_path / SETTINGS).write_text("seed: 0\n")  # it does not say whose it is
    with open_stage("sft", tmp_path, {"seed": 0}) as stage:
        assert not stage.done
