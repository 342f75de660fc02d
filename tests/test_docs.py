"""What the pages tell a reader to type works."""

import contextlib
import re
import shlex
from pathlib import Path
from typing import get_args

import pytest
from omegaconf import OmegaConf

from kernelrl import cli, rewards
from kernelrl.candidate import Completion
from kernelrl.cli import TOOLS
from kernelrl.configs import compose_config
from kernelrl.errors import UserError
from kernelrl.eval.settings import policy_settings, read_settings
from kernelrl.runs.stages import STAGES
from kernelrl.verdict import STAGES as STAGES_OF_A_VERDICT
from kernelrl.verdict import Build, Speedup, Spent, Status, TrialError, Verdict, Violation

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "DEVELOPERS.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?://)([^)#]+)")


def commands(page: Path) -> list[str]:
    blocks = re.findall(r"^```bash\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


ALL_COMMANDS = sorted({line for page in PAGES for line in commands(page)})


@pytest.mark.parametrize("line", ALL_COMMANDS)
def test_every_command_is_known_and_its_overrides_fit(line, monkeypatch):
    monkeypatch.chdir(ROOT)
    program, command, *words = shlex.split(line)
    if program == "make":
        assert re.search(rf"^{command}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    assert program == "kernelrl"
    overrides = [word for word in words if "=" in word and not word.startswith("hydra")]  # submitit may not be there
    if "-m" in words or command == "ablate":
        overrides = [word.partition(",")[0] for word in overrides]
    if command in STAGES:
        compose_config(command, overrides)
    else:
        assert command in TOOLS
        files = [word for word in words if "=" not in word and not word.startswith("-")] if command == "check" else []
        assert all(Path(file).is_file() for file in files)


OVERRIDE = re.compile(r"`([+~]?[a-z_]+(?:\.[a-z_-]+)+=[^`…,\n]+)`")
CHOICES = {
    "tasks": ["tasks=kernelbench", "tasks=multikernelbench", "tasks=graph", "tasks=transpile"],
    "selection": ["selection=full", "selection=random"],
    "teacher": ["teacher=llm"],
    "launcher": ["launcher=slurm"],
    "verifier": ["verifier=endpoint"],
    "policy": ["policy=endpoint"],
    "import": ["import=kernelbench_run"],
    "executor": ["executor=ray"],
}
"""Options of the groups whose keys are not those of the default."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_override_in_a_sentence_fits(page):
    """A key that no config lists needs a `+` there too."""
    refused = [word for word in OVERRIDE.findall(page.read_text()) if not fits(word.replace("=N", "=1"))]
    assert not refused


def fits(override):
    for choice in [[], *([each] for each in CHOICES.get(override.lstrip("+~").partition(".")[0], []))]:
        with contextlib.suppress(UserError):
            compose_config("pipeline", [*choice, override])
            return True
    return False


def test_the_recipe_of_policies_evaluates_those_that_it_names(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "policies.md").read_text()
    path, recipe = re.search(r"^```yaml\n# (\S+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL).groups()
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(recipe)
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"`kernelrl (eval --config-dir [^`]+)`", page)
    with pytest.raises(SystemExit) as exit_:
        cli.main([*shlex.split(command), "--cfg", "job"])
    assert exit_.value.code == 0
    settings = read_settings(OmegaConf.create(capsys.readouterr().out).eval)
    assert list(settings.policies) == ["base", "mine", "ready", "hosted"]
    assert settings.policies["base"] == "Qwen/Qwen3-8B"
    assert {policy_settings(settings, name).backend for name in settings.policies} == {
        *("transformers", "kernels", "endpoint")
    }
    words = ["eval/policies=none", "+eval.policies.mine=outputs/mine"]
    assert dict(compose_config("eval", words).eval.policies) == {"mine": "outputs/mine"}
    assert list(compose_config("eval", words[1:]).eval.policies) == ["base", "sft", "grpo", "mine"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = [target for target in LINK.findall(prose) if not (page.parent / target).exists()]
    assert not targets


def test_the_verdict_page_names_every_field_and_status():
    page = (ROOT / "docs" / "verdict.md").read_text()
    words = set(re.findall(r"`(\w+)`", page))
    assert words >= Verdict.model_fields.keys() | set(get_args(Status)) | set(STAGES_OF_A_VERDICT)
    for part in (Violation, TrialError, Speedup, Build, Spent):
        assert ", ".join(part.model_fields) in page


def test_the_readmes_reward_is_one(monkeypatch):
    page = (ROOT / "README.md").read_text()
    [source] = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "@reward" in block]
    [config] = [block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "terms:" in block]
    rewards.names()  # registers those that are shipped
    monkeypatch.setattr(rewards, "_measures", dict(rewards._measures))
    exec(source, {"__name__": "kernelrl.rewards.short"})
    reward = rewards.make_reward(OmegaConf.create(config))
    completion = Completion.parse("```python\nclass ModelNew: pass\n```\n")
    right = Verdict(task_id="t", candidate="c", status="correct", stage="correct", dialect="cpp", device="cpu")
    length = len("class ModelNew: pass")
    assert reward(completion, right).total == pytest.approx(1 + 0.2 * (1 - length / 1500), abs=1e-3)
