"""The pipeline: what it checks before long work, and the whole of it at toy scale, killed and resumed."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import TOY_CACHE
from kernelrl.configs import compose_config
from kernelrl.errors import UserError
from kernelrl.policies import models
from kernelrl.records import Ledger
from kernelrl.runs import preflight
from kernelrl.runs.preflight import require_all
from kernelrl.runs.stages import PIPELINE
from kernelrl.stage_folder import open_stage


def config(folder: Path, *overrides: str):
    return compose_config("pipeline", [f"output_dir={folder}", "tracker=none", *overrides])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["dialect=cobol"], "dialect 'cobol' is not known"),
        (["executor.device=cuda"], "executor.device=cuda: torch sees no GPU here"),
        (["model=hf", "model.name=./no/such/folder"], "model.name=./no/such/folder"),
        (["+sft.trainer.bogus=1"], "sft.trainer: SFTConfig.__init__() got an unexpected keyword argument 'bogus'"),
        (["grpo.trainer.num_generations=5"], "grpo.trainer: "),
        (["executor.engine=cloud"], "executor.engine='cloud': Input should be 'local'"),
        (["executor.trials=-1"], "executor.trials=-1: Input should be greater than 0"),
        (["+reward.terms.bogus.weight=1"], "reward 'bogus' is not known"),
        (["eval.samples=2", "eval.k=[4]"], "eval.k=[4]: pass@4 needs as many samples per task"),
    ],
)
def test_what_cannot_work_is_one_line_before_anything_is_written(tmp_path, overrides, message):
    with pytest.raises(UserError) as error:
        require_all(config(tmp_path / "out", *overrides), PIPELINE)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["+grpo.trainer.use_vllm=true"], "grpo.trainer.use_vllm: vllm is not installed; pip install 'kernelrl[vllm]'"),
        (["eval.backend=vllm"], "eval.backend=vllm: vllm is not installed"),
        (["parallel=zero3", "launcher.processes=2"], "parallel=zero2 or zero3: deepspeed is not installed"),
        (["launcher.processes=5"], "cannot be shared out among 5 ranks"),
        (["model.quantization=4bit"], "model.quantization=4bit: quantized weights are not trained"),
    ],
)
def test_what_would_be_missing_after_hours_is_said_first(tmp_path, overrides, message, monkeypatch):
    monkeypatch.setattr(preflight, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=re.escape(message)):
        require_all(config(tmp_path, *overrides), PIPELINE)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["recipe=demo", "model=smollm2"],
            "sft.trainer.learning_rate=0.003, grpo.trainer.learning_rate=0.02, grpo.trainer.max_completion_length=160: "
            "these suit the tiny model and not gguf; recipes of pretrained models: qwen3_8b_lora",
        ),
        (["recipe=demo"], None),
        (["recipe=qwen3_8b_lora", "model=smollm2", "grpo.trainer.use_vllm=false", "eval.backend=transformers"], None),
    ],
)
def test_a_pretrained_model_with_what_the_tiny_one_needs_is_warned_of(tmp_path, overrides, said, monkeypatch, caplog):
    monkeypatch.setattr(models, "check_base", lambda cfg, ask_hub: None)
    bf16 = ["sft.trainer.bf16=false", "grpo.trainer.bf16=false"]
    require_all(config(tmp_path, *overrides, *bf16), PIPELINE)
    assert caplog.text == "" if said is None else said in caplog.text


def test_no_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"no compiler for dialect cpp: g\+\+ is not on PATH; apt-get install g\+\+"):
        require_all(config(tmp_path), PIPELINE)
    require_all(config(tmp_path), ["report"])


def test_no_disk_space(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1 << 40, 1 << 40, 1 << 20))
    with pytest.raises(UserError, match=r"no disk space under .*GiB needed, 0\.0 GiB free"):
        require_all(config(tmp_path), PIPELINE)


def test_a_stage_that_has_finished_needs_nothing(tmp_path, monkeypatch):
    cfg = config(tmp_path)
    for name in ("curate", "grpo", "eval"):
        with open_stage(name, cfg[name].folder, {}) as stage:
            stage.finish({})
    monkeypatch.setenv("PATH", str(tmp_path))
    require_all(cfg, PIPELINE)


TOY = [
    *("pipeline", "recipe=toy", "tracker=none", "output_dir=out"),
    *("tasks.num_train=12", "curate.num_triples=8", "curate.num_heldout_triples=2"),
    *(TOY_CACHE, "executor.verdict_cache=false"),
    *("sft.trainer.max_steps=6", "sft.trainer.save_steps=2", "eval.max_new_tokens=64"),
    *("grpo.trainer.per_device_train_batch_size=4", "grpo.trainer.max_completion_length=64"),
]


@pytest.mark.slow
def test_killed_in_every_stage_it_goes_on_and_loses_and_doubles_nothing(tmp_path, tmp_path_factory, server):
    out, said = tmp_path / "out", tmp_path_factory.mktemp("said") / "output"
    moments: dict[str, Callable[[], bool]] = {
        "curate": lambda: _num_lines(out / "verified" / "records") >= 1,
        "sft": lambda: any((out / "sft" / "checkpoints").glob("checkpoint-*/seal.json")),
        "grpo": lambda: any((out / "grpo" / "checkpoints").glob("checkpoint-*/seal.json")),
        "eval": lambda: _num_lines(out / "eval" / "sft" / "records") >= 1,
    }
    for name, moment in moments.items():
        server.kill_at(moment, "kernelrl.cli:main", TOY, folder=tmp_path, output=said)
        assert not (out / ("data" if name == "curate" else name) / "done.json").exists(), f"{name} was not interrupted"
    finished = server.run(*TOY, folder=tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    for folder in out.rglob("records"):
        ledger = Ledger(folder)
        ids = Counter(record.id for record in ledger)
        assert ids and max(ids.values()) == 1, f"{folder}: doubled {ids.most_common(3)}"
    proposals = json.loads((out / "data" / "summary.json").read_text())["proposals"]
    assert len(list(Ledger(out / "verified" / "records"))) == proposals
    assert len(list(Ledger(out / "grpo" / "records"))) == 3 * 4, "steps x completions"
    assert len(list(Ledger(out / "eval" / "sft" / "records"))) == 6 * 2, "tasks x samples, beside a line cut short"
    for log in out.glob("*/log.jsonl"):
        steps = [json.loads(line)["step"] for line in log.read_text().splitlines()]
        assert steps == sorted(steps), log

    again = server.run(*TOY, folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("finished earlier") == 4
    assert list(json.loads((out / "results.json").read_text())["policies"]) == ["base", "sft", "grpo"]
    other = server.run(*TOY, "seed=1", folder=tmp_path)
    assert other.returncode == 2 and "holds a run with other settings" in other.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def _num_lines(folder: Path) -> int:
    return sum(1 for _ in _lines(folder))


def _lines(folder: Path) -> Iterator[bytes]:
    for path in folder.glob("*.jsonl"):
        yield from path.read_bytes().splitlines()
