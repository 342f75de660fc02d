"""`kernelrl doctor` tries what it reports, and says how to get what is missing."""

import json
import shutil

import pytest

from kernelrl.commands import doctor


@pytest.fixture(scope="module")
def findings() -> dict[str, doctor.Finding]:
    return {finding.name: finding for finding in doctor.examine()}


def test_everything_is_looked_for(findings):
    expected = {
        "processor",
        "memory",
        "GPU",
        "python",
        "torch",
        "triton",
        "apache-tvm-ffi",
        "g++",
        "sanitizers",
        "nvcc",
    }
    expected |= {
        "user namespaces",
        "network namespaces",
        "Landlock",
        "seccomp",
        "noexec",
        "clock",
        "wandb",
        "Slurm",
        "ray",
        "cpp",
    }
    assert expected <= findings.keys()


def test_what_is_missing_comes_with_the_line_that_installs_it(findings):
    without = [finding.name for finding in findings.values() if finding.state == "missing" and not finding.install]
    assert without in ([], ["GPU"])


def test_json_is_all_that_is_printed(capsys):
    assert doctor.main(["--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {"group", "name", "state", "detail", "install"} == printed["findings"][0].keys()


def test_the_table_names_every_finding(capsys, findings):
    assert doctor.main([]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in findings)


def test_no_compiler_means_no_cpp_dialect(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("g++") is None
    findings = {finding.name: finding for finding in doctor.examine()}
    assert findings["g++"].state == "missing" and findings["g++"].install == "apt-get install g++"
    assert findings["cpp"].state == "missing"


def test_a_probe_that_fails_says_why():
    def fail() -> None:
        raise OSError("no such luck")

    assert doctor._in_child(lambda: None) is None
    assert doctor._in_child(fail) == "OSError: no such luck"
