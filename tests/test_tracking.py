"""Tracking is online with a key, offline without, and never stops a run or leaves files in the working folder."""

import sys
import types

import pytest
from omegaconf import DictConfig, OmegaConf

from kernelrl.errors import UserError
from kernelrl.training.tracking import has_key, report_to


def config(folder: object, **tracker: str) -> DictConfig:
    settings = {"kind": "wandb", "project": "kernelrl", "mode": "auto"} | tracker
    return OmegaConf.create({"name": "x", "output_dir": str(folder), "tracker": settings})


def test_without_a_key_the_run_is_offline_and_under_the_output_folder(tmp_path, monkeypatch):
    import wandb

    monkeypatch.chdir(tmp_path)
    for stage in ("sft", "grpo"):
        assert report_to(config(tmp_path / "out"), stage) == ["wandb"]
        assert wandb.run is not None and wandb.run.name == f"x-{stage}" and wandb.run.offline
    wandb.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert len(list((tmp_path / "out" / "wandb").glob("offline-run-*"))) == 2


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
    assert report_to(OmegaConf.create({"tracker": {"kind": "none"}})) == []
    monkeypatch.setenv("RANK", "1")
    assert report_to(config(tmp_path)) == []


@pytest.mark.parametrize("tracker", [{"kind": "mlflow"}, {"mode": "sometimes"}])
def test_an_unknown_tracker_is_refused(tmp_path, tracker):
    with pytest.raises(UserError, match="is not known; choose"):
        report_to(config(tmp_path, **tracker))
