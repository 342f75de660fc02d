"""Selectors, on pools small enough to choose from by hand."""

from dataclasses import replace

import pytest

from kernelrl.configs import compose_config
from kernelrl.data.selection import Measured, Pool, Triple, make_selector, names
from kernelrl.data.selection.diverse import shingles
from kernelrl.data.selection.full import is_single_operator
from kernelrl.errors import UserError
from kernelrl.records import Ledger
from kernelrl.task import Task
from test_replay import record


def pool(*kernels, seed=0):
    """Triples from (task, tokens, speedup); a task of one letter has one operator, `ab` has two."""
    triples, tasks, texts = [], {}, {}
    for index, (name, tokens, speedup, *source) in enumerate(kernels):
        tasks[name] = Task(id=name, source="", ops=tuple(name), category=name[0])
        texts[index] = source[0] if source else f"kernel {index}"
        measured = speedup and Measured(median=speedup, low=speedup * 0.9)
        triples.append(Triple(index, name, name[0], "cpp", tokens, measured))
    return Pool(triples, seed, tasks, texts)


def choose(config, kernels, **changes):
    cfg = compose_config("curate", [f"selection={config}"]).selection
    selection = make_selector({**cfg, **changes}, timing=True)(kernels)
    return {criterion: [triple.index for triple in chosen] for criterion, chosen in selection.chosen.items()}


CONCUR = pool(
    ("ab", 100, 2.0),  # 0: shortest and fastest of its task
    ("ab", 200, 1.0),
    ("ac", 100, 1.0),  # 2: shortest, but 3 is faster and above the threshold
    ("ac", 200, 9.0),
    ("ac", 300, 6.0),  # 4: above the threshold too, but its task has its row
    ("ad", 100, 1.0),  # 5: neither shortest and fastest nor above the threshold
    ("ad", 200, 2.0),
    ("a", 300, 2.0),
    ("a", 100, 1.0),  # 8: the shortest of a single-operator task
    ("b", 100, 7.0),  # 9: a single-operator task that has its row already
    ("bc", 100, None),  # 10: speed not known
)


def test_concurs_criteria_in_their_order_and_one_row_per_task():
    assert choose("full", CONCUR) == {"shortest_and_fastest": [0, 9], "speedup": [3], "single_operator": [8]}


def test_concurs_threshold_and_bound():
    assert choose("full", CONCUR, min_speedup=8.5)["speedup"] == [3]
    assert choose("full", CONCUR, min_speedup=8.5, bound="low")["speedup"] == []  # proven: 8.1
    assert choose("full", CONCUR, min_speedup=1.5)["speedup"] == [3, 6, 7]


def test_a_kernel_without_a_rival_is_the_shortest_and_fastest_unless_a_rival_is_asked_for():
    chosen = choose("full", CONCUR, min_kernels=2)
    assert chosen == {"shortest_and_fastest": [0], "speedup": [3, 9], "single_operator": [8]}


def test_of_equally_short_reasonings_the_faster_kernel_is_the_shortest():
    assert choose("full", pool(("ab", 100, 1.0), ("ab", 100, 2.0)))["shortest_and_fastest"] == [1]


def test_kernels_whose_speed_is_not_known_are_kept_only_when_asked_for():
    kernels = pool(("ab", 200, None), ("ab", 100, None), ("cd", 100, None), ("cd", 200, 1.0))
    assert sum(choose("full", kernels).values(), []) == []
    assert choose("full", kernels, untimed="keep")["shortest_untimed"] == [1]


def test_single_operator_tasks_are_drawn_by_the_seed_up_to_the_number():
    kernels = [(name, tokens, tokens / 100) for name in "abcdefgh" for tokens in (200, 100)]
    draws = [choose("full", pool(*kernels, seed=seed), max_single_operator=3)["single_operator"] for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2] and len(draws[0]) == 3
    assert len(choose("full", pool(*kernels), max_single_operator=None)["single_operator"]) == 8


@pytest.mark.parametrize(
    ("body", "single"),
    [
        ("return torch.relu(x)", True),
        ("return self.linear(x.view(2, -1))", True),
        ("return x + 1", True),
        ("return torch.relu(x) + 1", False),
        ("return self.norm(self.linear(x))", False),
    ],
)
def test_a_task_without_a_list_of_operators_is_counted_by_its_program(body, single):
    source = (
        f"class Model(nn.Module):\n    def __init__(self):\n        f(g())\n    def forward(self, x):\n        {body}\n"
    )
    assert is_single_operator(Task(id="t", source=source)) == single
    assert is_single_operator(Task(id="t", source=source, level=1))
    assert not is_single_operator(Task(id="t", source=source, level=1, ops=("relu", "add")))


@pytest.mark.parametrize(
    ("config", "expected"), [("longest", [4, 7, 1, 3]), ("shortest", [0, 2, 5, 8]), ("speedup", [3, 9, 4, 0])]
)
def test_an_ablation_has_as_many_rows_as_the_full_selection(config, expected):
    assert choose(config, CONCUR) == {config: expected}


def test_the_random_ablation_is_drawn_by_the_seed():
    [first] = choose("random", CONCUR).values()
    assert len(set(first)) == 4 and [first] == list(choose("random", CONCUR).values())
    other = replace(CONCUR, seed=1)
    assert list(choose("random", other).values()) != [first]


def test_an_ablation_follows_the_settings_of_the_full_selection_or_a_number_of_its_own():
    like = compose_config("curate", ["selection=random", "selection.like.min_speedup=1.5"]).selection.like
    assert [len(chosen) for chosen in choose("random", CONCUR, like=like).values()] == [5]
    assert [len(chosen) for chosen in choose("longest", CONCUR, num_rows=2).values()] == [2]
    assert [len(chosen) for chosen in choose("random", CONCUR, num_rows=99).values()] == [11]


def test_best_of_n_goes_by_the_lower_bound_and_leaves_out_what_is_not_measured():
    assert choose("best_of_n", CONCUR) == {"best": [0, 3, 6, 7, 9]}
    assert choose("best_of_n", CONCUR, per_question=2, min_speedup=1.9) == {"best": [3, 4, 9]}
    noisy = replace(CONCUR.triples[0], speedup=Measured(median=2.0, low=0.5))
    assert choose("best_of_n", replace(CONCUR, triples=[noisy, CONCUR.triples[1]])) == {"best": [1]}


def test_no_category_has_more_than_its_cap():
    kernels = pool(*[("a", 1, None)] * 9, *[("b", 1, None)] * 5, ("c", 1, None))
    [chosen] = choose("capped", kernels, per_category=3).values()
    assert [sum(low <= index < high for index in chosen) for low, high in ((0, 9), (9, 14), (14, 15))] == [3, 3, 1]
    [chosen] = choose("capped", kernels, per_category=3, caps={"a": 7}).values()
    assert len(chosen) == 11


LOOP = "for (int i = 0; i < n; ++i) out[i] = {0}(x[i]) * 2.0f;\nfor (int j = 0; j < n; ++j) out[j] += sqrt(y[j]);"


def test_diversity_is_of_structure_and_not_of_names():
    renamed = LOOP.format("exp").replace("x[", "input[").replace("2.0", "3.5") + "  // the same"
    kernels = pool(*[("a", 1, None, source) for source in (LOOP.format("exp"), renamed, "while (p) q = tanh(p--);")])
    assert choose("diverse", kernels) == {"distinct": [0, 2]}
    assert shingles(LOOP.format("exp"), "cpp") == shingles(renamed, "cpp") != shingles(LOOP.format("log"), "cpp")
    assert shingles("a = b // 2\nc = f(a)", "triton") != shingles("a = b // 2\nc = g(a)", "triton")


def test_tasks_that_a_policy_solves_sometimes(tmp_path):
    outcomes = {"ab": "correct incorrect", "ac": "correct correct", "ad": "incorrect incorrect", "a": "correct"}
    records = [record(i, 0, task, status) for task, each in outcomes.items() for i, status in enumerate(each.split())]
    records.append(record(9, 0, "a", "infrastructure"))  # says nothing about the task
    Ledger(tmp_path / "records").append(records)
    assert choose("solved_sometimes", CONCUR, records=str(tmp_path)) == {"solved_sometimes": [0, 1]}
    settings = {"name": "solved_sometimes", "records": str(tmp_path)}
    assert make_selector(settings, timing=False)(CONCUR).tasks == {"ab"}
    with pytest.raises(UserError, match=r"of the 0 tasks in .* none has at least 2 samples"):
        make_selector(settings | {"policy": "other"}, timing=False)(CONCUR)


@pytest.mark.parametrize("name", names())
def test_every_selector_has_a_config_chooses_no_triple_twice_and_repeats_itself(name, tmp_path):
    Ledger(tmp_path / "records").append([record(0, 0, "ab", "correct"), record(1, 0, "ab", "incorrect")])
    changes = {"records": str(tmp_path)} if name == "solved_sometimes" else {}
    chosen = sum(choose(name, CONCUR, **changes).values(), [])
    assert chosen and len(chosen) == len(set(chosen))
    assert choose(name, CONCUR, **changes) == choose(name, CONCUR, **changes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "best"}, "selection.name='best' is not known; choose one of all, best_of_n, capped"),
        ({"name": "capped", "per_task": 3}, "selection capped has no parameter 'per_task'; it has per_category, caps"),
        ({"name": "capped", "per_category": 0}, "selection.per_category=0: Input should be greater than or equal to 1"),
        ({"name": "full"}, "selection full needs speedups, and curate.timing=false measures none"),
        ({"name": "random", "like": {"name": "full"}}, "selection full needs speedups"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_judged(settings, message):
    with pytest.raises(UserError) as error:
        make_selector(settings, timing=False)
    assert message in str(error.value) and "\n" not in str(error.value)
