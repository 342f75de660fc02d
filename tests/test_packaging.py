"""The wheel, installed in an environment of its own away from a checkout, does the work."""

import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from conftest import KERNELS, REFERENCE

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    [path] = folder.glob("*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_holds_configs_types_and_licence(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for path in (ROOT / "configs").rglob("*.yaml"):
        assert f"kernelrl/configs/{path.relative_to(ROOT / 'configs')}" in names
    assert "kernelrl/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_wheel_away_from_a_checkout(wheel, tmp_path):
    environment, work = tmp_path / "environment", tmp_path / "work"
    venv.create(environment, with_pip=True)
    work.mkdir()
    [packages] = environment.glob("lib/python3*/site-packages")
    # what it depends on is here already: `make setup` has installed that from nothing
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    subprocess.run([environment / "bin" / "pip", "install", "--quiet", "--no-deps", wheel], check=True, cwd=work)
    where = [environment / "bin" / "python", "-c", "import kernelrl; print(kernelrl.__file__)"]
    assert str(environment) in subprocess.run(where, check=True, cwd=work, capture_output=True, text=True).stdout

    def kernelrl(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(environment / "bin" / "kernelrl"), *arguments]
        return subprocess.run(command, cwd=work, capture_output=True, text=True)

    doctor = kernelrl("doctor", "--json")
    assert doctor.returncode == 0, doctor.stderr
    (work / "reference.py").write_text(REFERENCE)
    for name, code in (("right", 0), ("wrong", 1), ("cheat", 1)):
        (work / f"{name}.py").write_text(KERNELS[name])
        check = kernelrl("check", "reference.py", f"{name}.py", "--json")
        assert check.returncode == code, check.stdout + check.stderr
        assert (json.loads(check.stdout)["status"] == "correct") == (code == 0)
    few = ["tasks.num_train=24", "curate.num_triples=16", "sft.trainer.max_steps=4", "grpo.trainer.max_steps=1"]
    pipeline = kernelrl("pipeline", "recipe=toy", "output_dir=out", *few)
    assert pipeline.returncode == 0, pipeline.stdout + pipeline.stderr
    assert (work / "out" / "report.html").stat().st_size > 10_000
    assert list(json.loads((work / "out" / "results.json").read_text())["policies"]) == ["base", "sft", "grpo"]
