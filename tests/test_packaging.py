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
from conftest import KERNELS, REFERENCE
from test_docs import ROOT, commands

SMALLER = (
    *("tasks.num_train=24", "curate.num_triples=16", "tasks.num_heldout=4", "sft.trainer.max_steps=4"),
    *("grpo.trainer.max_steps=2", "grpo.trainer.max_completion_length=64", "eval.max_new_tokens=64"),
)
"""What makes the stages of `recipe=toy` shorter still: the same for all of them, since one goes on from another."""


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
    venv.create(folder, with_pip=True)
    [packages] = folder.glob("lib/python3*/site-packages")
    # what it depends on is here already: `make setup` has installed that from nothing
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", "--no-deps", wheel], check=True, cwd=folder)
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
    (tmp_path / "reference.py").write_text(REFERENCE)
    for name, code in (("right", 0), ("wrong", 1), ("cheat", 1)):
        (tmp_path / f"{name}.py").write_text(KERNELS[name])
        check = kernelrl("check", "reference.py", f"{name}.py", "--json")
        assert check.returncode == code, check.stdout + check.stderr
        assert (json.loads(check.stdout)["status"] == "correct") == (code == 0)


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
        runs = "recipe=toy" in words and words[0] != "launch"
        done = server.run(*words, *(SMALLER if runs else ()), folder=tmp_path)
        expected = 1 if "--batch" in words else 0  # one of the kernels in the example calls torch
        assert done.returncode == expected, f"{line}\n{done.stdout}\n{done.stderr}"
    server.close()
    assert {path.name for path in tmp_path.iterdir()} == {"docs", "outputs"}, "a command left something behind"
    results = json.loads((tmp_path / "outputs" / "toy" / "results.json").read_text())
    assert list(results["policies"]) == ["base", "sft", "grpo"]
    assert (tmp_path / "outputs" / "toy" / "report.html").stat().st_size > 10_000
