"""The wheel, installed in an environment of its own away from a checkout, does what the README says."""

import json
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import warm
from conftest import KERNELS, REFERENCE, TOY_CACHE, TOY_DATA
from test_docs import ROOT, commands

SMALLER = (
    *(*TOY_DATA, TOY_CACHE, "sft.trainer.max_steps=4", "grpo.trainer.max_steps=2"),
    *(
        "grpo.trainer.max_completion_length=64",
        "eval.max_new_tokens=64",
        "executor.timing=false",
        "executor.draws=tests",
    ),
)
"""What makes the stages of `recipe=toy` shorter still: the same for all of them, since one goes on from another."""
CHECK = (TOY_CACHE, "executor.verdict_cache=false")
ONE_STEP = ("grpo.trainer.max_steps=1", "grpo.trainer.per_device_train_batch_size=4", "tracker=none")
"""Of each of several trainings that are compared."""
KEVIN = (
    *(TOY_CACHE, "grpo.trainer.max_steps=1", "grpo.trainer.per_device_train_batch_size=12"),
    "grpo.trainer.max_completion_length=64",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory) -> Path:
    """The `bin` folder of an environment that holds the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    [packages] = folder.glob("lib/python3*/site-packages")
    # what it depends on is here already: `make setup` has installed that from nothing
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    install = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", "--no-deps"]
    subprocess.run([*install, wheel], check=True, cwd=folder)
    return folder / "bin"


@pytest.mark.slow
def test_the_wheel_holds_configs_types_and_licence(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for path in (ROOT / "configs").rglob("*.yaml"):
        assert f"kernelrl/configs/{path.relative_to(ROOT / 'configs')}" in names
    assert "kernelrl/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.slow
def test_the_wheels_command_judges_away_from_a_checkout(environment, tmp_path):
    where = [environment / "python", "-c", "import kernelrl; print(kernelrl.__file__)"]
    said = subprocess.run(where, check=True, cwd=tmp_path, capture_output=True, text=True).stdout
    assert said.startswith(str(environment.parent))

    def kernelrl(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([environment / "kernelrl", *words], cwd=tmp_path, capture_output=True, text=True)

    doctor = kernelrl("doctor", "--json")
    assert doctor.returncode == 0, doctor.stderr
    names = ("right", "wrong", "cheat")
    rows = [{"id": name, "reference": REFERENCE, "kernel": KERNELS[name]} for name in names]
    (tmp_path / "batch.jsonl").write_text("\n".join(map(json.dumps, rows)))
    check = kernelrl("check", "--batch", "batch.jsonl", *CHECK)  # all in one process: it takes seconds to start
    assert check.returncode == 1, check.stdout + check.stderr
    found = {verdict["id"]: verdict["status"] for verdict in map(json.loads, check.stdout.splitlines())}
    assert found == {"right": "correct", "wrong": "incorrect", "cheat": "illegal"}


@pytest.mark.slow
def test_the_commands_of_the_readme_run_in_order(environment, tmp_path):
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    server = warm.Server(environment / "python")
    for line in commands(ROOT / "README.md"):
        program, *words = shlex.split(line)
        if program == "make":  # .ci/run runs the tests; the demo is `recipe=toy`, below, at another scale
            continue
        if words[0] == "launch" and "--dry-run" not in words:  # tests/test_slurm.py submits it
            continue
        done = server.run(*words, *_shorter(words), folder=tmp_path)
        expected = 1 if "--batch" in words else 0  # one of the kernels in the example calls torch
        assert done.returncode == expected, f"{line}\n{done.stdout}\n{done.stderr}"
    server.close()
    assert {path.name for path in tmp_path.iterdir()} == {"docs", "outputs"}, "a command left something behind"
    results = json.loads((tmp_path / "outputs" / "toy" / "results.json").read_text())
    assert list(results["policies"]) == ["base", "sft", "grpo"]
    assert (tmp_path / "outputs" / "toy" / "report.html").stat().st_size > 10_000


def _shorter(words):
    """Overrides with which a command of the README takes less time."""
    if words[0] == "check":
        return CHECK
    if words[0] == "launch" or "--cfg" in words:
        return ()
    if "scale=toy" in words:
        return KEVIN
    if "recipe=toy" not in words:
        return ()
    compares = words[0] == "ablate" or (words[0] == "grpo" and "-m" in words)
    return (*SMALLER, *(ONE_STEP if compares else ()))
