"""Every config composes, and an override that does not fit gets one line with the close match."""

from itertools import chain

import pytest
from omegaconf import OmegaConf

from kernelrl.configs import check_overrides, compose_config, config_dir
from kernelrl.errors import UserError
from kernelrl.executor import ExecutorSettings
from kernelrl.runs.stages import STAGES

COMMANDS = [*STAGES, "check"]
GROUPS = sorted(path.name for path in config_dir().iterdir() if path.is_dir())
OPTIONS = [(group, path.stem) for group in GROUPS for path in sorted((config_dir() / group).glob("*.yaml"))]
NEEDED = {
    ("model", "hf"): ["model.name=some/model"],
    ("import", "kernelbench_run"): ["import.folder=runs/name"],
    **{
        (group, source): ["tasks.path=some/folder"]
        for group in ("tasks", "channel")
        for source in ("modules", "multikernelbench", "robust_kbench", "table", "tritonbench")
    },
}
"""Overrides without which an option says nothing."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_composes_and_resolves(command):
    OmegaConf.to_container(compose_config(command), resolve=True)


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_composes_and_resolves(group, option):
    cfg = compose_config("pipeline", [f"{group}={option}", *NEEDED.get((group, option), [])])
    OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)


def test_an_override_means_the_same_everywhere():
    overrides = ["seed=7", "name=x", "executor.trials=3"]
    composed = [compose_config(command, overrides) for command in STAGES]
    assert all(cfg == composed[0] for cfg in composed)
    assert composed[0].sft.folder == "outputs/x/sft"


def test_the_executor_config_shows_every_setting_with_its_default():
    settings = OmegaConf.to_container(compose_config("check").executor)
    assert settings == ExecutorSettings().model_dump(mode="json")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("modle=tiny", "unknown override 'modle'; did you mean 'model'?"),
        ("seeed=1", "unknown override 'seeed'; did you mean 'seed'?"),
        ("model=tinny", "no option 'tinny' in config group 'model'; did you mean 'tiny'?"),
        ("tracker=x", "no option 'x' in config group 'tracker'; choose one of none, tensorboard, trackio, wandb"),
        ("sft.trainer.lerning_rate=1", "did you mean 'sft.trainer.learning_rate'?"),
        ("trials=3", "unknown override 'trials'; did you mean 'executor.trials'?"),
        ("~modl", "unknown override 'modl'; did you mean 'model'?"),
        ("seed=abc", "seed=abc is not a number; its default is 0"),
        ("executor.timing=x", "executor.timing=x is not true or false; its default is True"),
        ("model.name=Qwen/Qwen3-8B", "unknown override 'model.name'; a setting of model=hf: add that"),
        ("bogus=1", "unknown override 'bogus'; choose one of "),
    ],
)
def test_an_override_that_does_not_fit_is_one_line(override, message):
    with pytest.raises(UserError) as error:
        compose_config("sft", [override])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("word", ["foo", "seed=[1", "=1"])
def test_a_word_that_is_no_override(word):
    with pytest.raises(UserError, match="is not an override; write key=value"):
        check_overrides(["seed=1", word])


def test_config_files_are_yaml_only():
    assert not [path for path in chain(config_dir().rglob("*")) if path.is_file() and path.suffix != ".yaml"]
