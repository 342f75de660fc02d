"""`kernelrl eval strategy=…`: samples are trajectories, and figures are given turn by turn."""

import json

import pytest

from chat_server import answer
from conftest import KERNELS, REFERENCE
from executor_cases import FAST
from kernelrl.configs import compose_config
from kernelrl.data.rows import task_row
from kernelrl.data.tables import TASK_COLUMNS, write_table
from kernelrl.errors import UserError
from kernelrl.eval import report, run, settings, stage
from kernelrl.records import Ledger
from kernelrl.strategies.trajectory import best
from kernelrl.task import Task
from scripted import completion

WRONG, BROKEN, RIGHT = (answer(completion(KERNELS[name])) for name in ("wrong", "broken", "right"))


@pytest.fixture
def cfg(tmp_path, monkeypatch, kept_executor, executor_cache, serve):
    rows = [task_row(Task(id=f"relu/{name}", source=REFERENCE), "cpp", "short", None) for name in "ab"]
    write_table(tmp_path / "tasks.parquet", rows, TASK_COLUMNS)
    monkeypatch.setattr(stage, "make_executor", kept_executor)

    def cfg(*script, **overrides):
        node = {"backend": "endpoint", "model": "m", "base_url": serve(*script).url, "retries": 0, "concurrency": 1}
        words = [
            f"output_dir={tmp_path / 'run'}",
            "tracker=none",
            f"eval.tasks={tmp_path / 'tasks.parquet'}",
            *(f"~eval.policies.{name}" for name in ("base", "sft", "grpo")),
            f"+eval.policies.served={json.dumps(node).replace(chr(34), '')}",
            "eval.samples=2",
            "eval.k=[1,2]",
            "eval.bootstrap=100",
            "executor.timing=false",
            f"executor.cache_dir={executor_cache}",
            *(f"executor.{name}={value}" for name, value in FAST.items() if name != "draws"),
            "executor.draws=tests",
            *(
                f"{key}={value}"
                for key, value in ({"strategy": "refine", "strategy.max_turns": 3} | overrides).items()
                if value
            ),
        ]
        return compose_config("eval", words)

    return cfg


def test_figures_are_of_the_best_attempt_and_turn_by_turn(cfg, tmp_path, capsys):
    script = [WRONG] * 4 + [RIGHT] + [BROKEN] * 7
    results = json.loads(run(cfg(*script)).read_text())
    summary = results["policies"]["served"]
    assert summary["num_samples"] == 4 and summary["figures"]["correct"]["value"] == 0.25
    turns = summary["turns"]
    assert [(turn["turn"], turn["attempts"]) for turn in turns] == [(0, 4), (1, 4), (2, 4)]
    assert [turn["figures"]["correct"]["value"] for turn in turns] == [0.0, 0.25, 0.25]
    assert [turn["figures"]["pass@2"]["value"] for turn in turns] == [0.0, 0.5, 0.5]
    assert "by turn, best so far" in capsys.readouterr().out
    records = list(Ledger(tmp_path / "run" / "eval" / "served" / "records"))
    assert len(records) == 12 and {record.id.rpartition("/")[0] for record in records} == {
        f"eval/served/relu/{task}/{sample}" for task in "ab" for sample in (0, 1)
    }
    assert best(best(records)) == best(records)
    assert {(each.prompt_tokens, each.completion_tokens) for each in best(records)} == {(3000, 1500)}, "of all attempts"
    assert summary["figures"]["tokens"]["value"] == 1500


def test_a_killed_evaluation_goes_on_at_its_turn(cfg):
    with pytest.raises(UserError, match="the policy answers nothing"):
        run(cfg(*[WRONG] * 4, (500, "{}")))
    summary = json.loads(run(cfg(RIGHT)).read_text())["policies"]["served"]
    assert [turn["figures"]["correct"]["value"] for turn in summary["turns"]] == [0.0, 1.0, 1.0]
    assert summary["num_resumed"] == 4


def test_answers_that_were_not_judged_yet_are_no_time_of_sampling(cfg, tmp_path):
    with pytest.raises(UserError, match="questions without an answer"):
        run(cfg(*[RIGHT] * 3, (500, "{}")))
    assert not list(Ledger(tmp_path / "run" / "eval" / "served" / "records"))
    summary = json.loads(run(cfg(RIGHT)).read_text())["policies"]["served"]
    assert summary["figures"]["correct"]["value"] == 1
    assert (summary["num_resumed"], summary["seconds_per_solved"]) == (3, None)


def test_attempts_of_a_strategy_are_not_judged_anew(cfg, tmp_path):
    run(cfg(RIGHT, **{"strategy.max_turns": 1}))
    with pytest.raises(UserError, match=r"holds attempts of strategy=refine, .* evaluate with that strategy again"):
        run(compose_config("eval", [f"rejudge={tmp_path / 'run'}", f"output_dir={tmp_path / 'again'}", "tracker=none"]))


def test_a_story_is_written_over_turns_beside_the_samples_and_told_by_the_report(cfg, tmp_path):
    """One task twice: after four single answers a wrong kernel is corrected. Its attempts are in no figure."""
    words = {"+strategy@eval.story.strategy": "refine", "eval.story.strategy.max_turns": 2, "+eval.story.tasks": 1}
    story = cfg(*[WRONG] * 6, RIGHT, WRONG, **{"strategy": "single", "strategy.max_turns": None} | words)
    summary = json.loads(run(story).read_text())["policies"]["served"]
    assert summary["num_samples"] == 4 and summary["figures"]["correct"]["value"] == 0 and "turns" not in summary
    attempts = list(Ledger(tmp_path / "run" / "eval" / "served" / "story" / "records"))
    assert {(each.task_id, each.turn) for each in attempts} == {("relu/a", 0), ("relu/a", 1)} and len(attempts) == 4
    page = report.run(story).read_text()
    assert "One task over turns" in page and "relu/a, by served with the strategy refine" in page


def test_a_strategy_that_needs_several_policies_is_refused():
    words = ["strategy=evolve", "strategy.ensemble=[coder,other]"]
    cfg = compose_config("eval", words)
    with pytest.raises(UserError, match="eval strategy=evolve: every policy plays all roles here"):
        settings.read_strategy(cfg, settings.read_settings(cfg.eval), [])
    cfg = compose_config(
        "eval",
        [
            "+strategy@eval.story.strategy=evolve",
            "+eval.story.tasks=1",
            words[1].replace("strategy", "eval.story.strategy"),
        ],
    )
    with pytest.raises(UserError, match="eval.story.strategy=evolve: the last policy plays all roles"):
        settings.read_story(cfg, settings.read_settings(cfg.eval), [])
