"""Stage folders resume, finish, and refuse what does not fit."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from kernelrl.errors import UserError
from kernelrl.stage_folder import is_done, open_stage, read_figures, read_settings, require_free_disk

HOLD = """
import sys, time
from kernelrl.stage_folder import open_stage
with open_stage("sft", sys.argv[1], {"seed": 0}):
    print("open", flush=True)
    time.sleep(1000)
"""


def test_a_stage_is_open_until_it_finishes(tmp_path):
    folder = tmp_path / "deep" / "sft"
    with open_stage("sft", folder, {"seed": 0}) as stage:
        assert not stage.done
    with open_stage("sft", folder, {"seed": 0}) as stage:
        assert not stage.done and not is_done(folder) and read_figures(folder) == {}
        stage.finish({"loss": 0.5})
    with open_stage("sft", folder, {"seed": 0}) as stage:
        assert stage.done and is_done(folder) and read_figures(folder)["loss"] == 0.5


def test_other_settings_are_refused_by_name(tmp_path):
    with open_stage("sft", tmp_path, {"seed": 0, "trainer": {"max_steps": 10}}):
        (tmp_path / "log.jsonl").touch()
    with (
        pytest.raises(UserError, match=r"trainer\.max_steps was 10, now 20.*choose another output_dir="),
        open_stage("sft", tmp_path, {"seed": 0, "trainer": {"max_steps": 20}}),
    ):
        pass


def test_many_differences_are_counted_and_not_listed(tmp_path):
    with open_stage("sft", tmp_path, {f"key{index}": 0 for index in range(9)}) as stage:
        stage.finish({})
    with (
        pytest.raises(UserError, match="and 4 more"),
        open_stage("sft", tmp_path, {f"key{index}": 1 for index in range(9)}),
    ):
        pass


def test_settings_may_change_until_something_is_made_of_them(tmp_path):
    """Signs of life, and answers that are kept by what was asked, are made with any settings."""
    for temperature in (0.8, 80.0):
        with open_stage("eval", tmp_path, {"temperature": temperature}):
            with open_stage("eval of mine", tmp_path / "mine", {"temperature": temperature}) as part:
                (part.path / "records").mkdir(exist_ok=True)
            for kept in (tmp_path / "health" / "rank0.json", tmp_path / "mine" / "answers" / "cache.db"):
                kept.parent.mkdir(exist_ok=True)
                kept.write_text("{}")
    assert read_settings(tmp_path) == read_settings(tmp_path / "mine") == {"temperature": 80.0}
    (tmp_path / "mine" / "records" / "rank0.jsonl").write_text("{}\n")
    for folder, name in ((tmp_path, "eval"), (tmp_path / "mine", "eval of mine")):
        with (
            pytest.raises(UserError, match=r"temperature was 80.0, now 0.8"),
            open_stage(name, folder, {"temperature": 0.8}),
        ):
            pass


def test_settings_may_be_nodes_of_the_config_with_interpolations(tmp_path):
    cfg = OmegaConf.create({"output_dir": "out", "sft": {"folder": "${output_dir}/sft"}})
    for _ in range(2):
        with open_stage("sft", tmp_path, {"sft": cfg.sft, "path": tmp_path}):
            pass
    assert OmegaConf.load(tmp_path / "settings.yaml").sft.folder == "out/sft"


def test_a_second_process_is_refused_and_a_killed_one_leaves_no_lock(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "open\n"
    with (
        pytest.raises(UserError, match=f"in use by process {holder.pid}"),
        open_stage("sft", tmp_path, {"seed": 0}),
    ):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with open_stage("sft", tmp_path, {"seed": 0}) as stage:
        assert not stage.done


def test_a_forked_child_that_outlives_the_stage_does_not_keep_the_lock(tmp_path):
    with open_stage("sft", tmp_path, {"seed": 0}):
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
        child.start()
    second = subprocess.run(
        [sys.executable, "-c", HOLD.replace("time.sleep(1000)", "pass"), str(tmp_path)], capture_output=True, text=True
    )
    child.terminate()
    child.join()
    assert second.stdout == "open\n", second.stderr


def test_other_ranks_wait_for_nothing_and_write_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with open_stage("grpo", tmp_path, {"seed": 0}) as stage:
        stage.finish({})
    assert os.listdir(tmp_path) == []


def test_done_is_whole_or_absent(tmp_path):
    with open_stage("sft", tmp_path, {}) as stage:
        stage.finish({"a": [1, 2]})
    assert json.loads((tmp_path / "done.json").read_text())["a"] == [1, 2]
    assert not list(tmp_path.glob("*.tmp"))


def test_a_folder_that_cannot_be_created(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot create folder"), open_stage("sft", tmp_path / "file" / "sft", {}):
        pass


def test_free_disk_is_checked_where_the_folder_will_be(tmp_path):
    require_free_disk(tmp_path / "not" / "yet", 1)
    with pytest.raises(UserError, match=r"no disk space under .*GiB needed"):
        require_free_disk(Path(tmp_path), 1 << 60)
