"""Tracking goes on with the same run, never stops one, and leaves no files in the working folder."""

import os
import sys
import types

import pytest
from omegaconf import DictConfig, OmegaConf

from kernelrl.configs import compose_config
from kernelrl.errors import UserError
from kernelrl.runs.preflight import require_all
from kernelrl.training import tracking
from kernelrl.training.tracking import has_key, log_figures


def config(folder: object, **tracker: str) -> DictConfig:
    settings = {"kind": "wandb", "project": "kernelrl", "mode": "auto"} | tracker
    stages = {stage: {"folder": f"{folder}/{stage}"} for stage in ("sft", "grpo", "eval")}
    return OmegaConf.create({"name": "x", "output_dir": str(folder), "tracker": settings} | stages)


def report_to(cfg: DictConfig, stage: str) -> list[str]:
    return tracking.start(cfg, stage)["report_to"]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in ("TENSORBOARD_LOGGING_DIR", "TRACKIO_DIR"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_without_a_key_the_run_is_offline_and_under_the_output_folder(tmp_path, monkeypatch):
    import wandb

    monkeypatch.chdir(tmp_path)
    for stage in ("sft", "grpo"):
        assert report_to(config(tmp_path / "out"), stage) == ["wandb"]
        assert wandb.run is not None and wandb.run.name == f"x-{stage}" and wandb.run.offline
    wandb.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert len(list((tmp_path / "out" / "wandb").glob("offline-run-*"))) == 2


def test_a_stage_that_goes_on_is_the_same_run_of_wandb_and_another_stage_is_not(tmp_path, monkeypatch):
    import wandb

    monkeypatch.chdir(tmp_path)
    ids = []
    for stage in ("sft", "grpo", "grpo"):
        assert report_to(config(tmp_path / "out"), stage) == ["wandb"] and wandb.run is not None
        ids.append(wandb.run.id)
        wandb.finish()
    assert ids[1] == ids[2] != ids[0]
    assert (tmp_path / "out" / "grpo" / "wandb_id").read_text() == ids[1]


def test_online_the_server_is_asked_to_go_on_with_the_run(tmp_path, monkeypatch):
    asked = []

    def init(id: str | None, resume: str | None, **settings: object) -> object:
        asked.append((id, resume))
        return types.SimpleNamespace(id=id or "first")

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(run=None, init=init, Settings=dict))
    for _ in range(2):
        assert report_to(config(tmp_path, mode="online"), "grpo") == ["wandb"]
    assert asked == [(None, None), ("first", "allow")]


def test_tensorboard_gets_a_folder_for_each_stage(tmp_path):
    pytest.importorskip("tensorboard")
    cfg = config(tmp_path, kind="tensorboard")
    assert report_to(cfg, "grpo") == ["tensorboard"]
    assert os.environ["TENSORBOARD_LOGGING_DIR"] == str(tmp_path / "tensorboard" / "grpo")
    log_figures(cfg, "eval", {"eval/grpo/correct": 0.5})
    (written,) = (tmp_path / "tensorboard" / "eval").glob("events.out.tfevents.*")
    assert b"eval/grpo/correct" in written.read_bytes()


def test_trackio_is_told_the_run_and_keeps_it_in_the_runs_folder(tmp_path, monkeypatch):
    told = []
    trackio = types.SimpleNamespace(
        init=lambda **run: told.append(run), log=lambda figures: told.append(figures), finish=lambda: told.append("end")
    )
    monkeypatch.setitem(sys.modules, "trackio", trackio)
    monkeypatch.setattr(tracking, "find_spec", lambda name: name)
    cfg = config(tmp_path, kind="trackio", project="kernels")
    assert tracking.start(cfg, "grpo") == {"report_to": ["trackio"], "run_name": "x-grpo", "project": "kernels"}
    assert os.environ["TRACKIO_DIR"] == str(tmp_path / "trackio")
    log_figures(cfg, "eval", {"eval/grpo/correct": 0.5})
    assert told[1:] == [{"eval/grpo/correct": 0.5}, "end"]
    assert told[0] | {"project": "kernels", "name": "x-eval", "resume": "allow"} == told[0]


def test_a_tracker_that_is_not_installed_is_refused_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    cfg = compose_config("pipeline", ["recipe=toy", "tracker=trackio", f"output_dir={tmp_path}"])
    with pytest.raises(UserError, match=r"tracker=trackio: not installed; pip install 'kernelrl\[trackers\]'"):
        require_all(cfg, ["sft"])


def test_a_key_is_found_in_the_environment_and_in_netrc(tmp_path, monkeypatch):
    assert not has_key()
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    (tmp_path / "netrc").write_text("machine api.wandb.ai login user password 0123\n")
    assert has_key()
    (tmp_path / "netrc").write_text("not a netrc file")
    assert not has_key()
    monkeypatch.setenv("WANDB_API_KEY", "0123")
    assert has_key()


def test_a_tracker_that_fails_is_tried_offline_and_then_left_out(tmp_path, monkeypatch, caplog):
    modes = []

    def init(mode: str, **settings: object) -> None:
        modes.append(mode)
        raise RuntimeError("api.wandb.ai is on fire\nmore")

    broken = types.SimpleNamespace(run=None, init=init, Settings=dict)
    monkeypatch.setitem(sys.modules, "wandb", broken)
    assert report_to(config(tmp_path, mode="online"), "sft") == []
    assert modes == ["online", "offline"]
    assert "could not start in mode online: api.wandb.ai is on fire" in caplog.text


def test_off_and_other_ranks_report_nothing(tmp_path, monkeypatch):
    assert report_to(config(tmp_path, kind="none"), "sft") == []
    monkeypatch.setenv("RANK", "1")
    assert report_to(config(tmp_path), "sft") == []


@pytest.mark.parametrize("tracker", [{"kind": "mlflow"}, {"mode": "sometimes"}])
def test_an_unknown_tracker_is_refused(tmp_path, tracker):
    with pytest.raises(UserError, match="is not known; choose"):
        report_to(config(tmp_path, **tracker), "sft")
