"""The curriculum: which tasks come next, by pass rate, by the length of reasonings, by category."""

import pytest
from pydantic import ValidationError

from kernelrl.configs import compose_config, read_node
from kernelrl.grpo.curriculum import Curriculum, CurriculumSettings

ROWS = [
    {"task_id": f"{category}/{difficulty}/{number}", "category": category, "difficulty": difficulty}
    for category, numbers in (("matmul", range(1)), ("chain", range(9)))
    for difficulty in ("easy", "medium", "hard")
    for number in numbers
]


def curriculum(name="pass_rate", rows=ROWS, **settings):
    node = compose_config("grpo", [f"curriculum={name}"]).curriculum
    known = read_node(CurriculumSettings, node, "curriculum")
    return Curriculum(CurriculumSettings(**known.model_dump() | settings), rows, seed=0)


def drawn(made, step=0, progress=0.0, num=4):
    return [ROWS[index]["task_id"] for index in made.choose(step, progress, num)]


def test_tasks_that_are_solved_sometimes_are_drawn_and_the_others_rest_and_return():
    made = curriculum(rows=ROWS[:4], memory=0.0, hard_rests=5, solved_rests=20)
    ids = [row["task_id"] for row in ROWS[:4]]
    for id, rate in zip(ids, (0.0, 0.2, 0.8, 1.0), strict=True):
        made.observe(0, [id] * 10, [number < 10 * rate for number in range(10)])

    def ready(step):
        return {index for _ in range(30) for index in made.choose(step, 0.0, 1)}

    assert ready(1) == {1, 2}
    assert ready(5) == {0, 1, 2}, "hard ones return"
    assert ready(20) == {0, 1, 2, 3}, "and solved ones later"
    assert made.figures() == {"curriculum/new": 0.0, "curriculum/hard": 0.25, "curriculum/solved": 0.25}


def test_where_too_few_are_ready_those_that_rested_longest_come_before_a_task_comes_twice():
    made = curriculum(rows=ROWS[:3], memory=0.0)
    for step, row in enumerate(ROWS[:2]):
        made.observe(step, [row["task_id"]], [False])
    assert made.choose(2, 0.0, 2) == [2, 0]
    assert sorted(made.choose(2, 0.0, 4)) in ([0, 1, 2, 2], [0, 0, 1, 2], [0, 1, 1, 2])


def test_a_pass_rate_remembers_earlier_groups():
    made = curriculum(memory=0.5)
    made.observe(0, ["a"], [True])
    made.observe(1, ["a", "a"], [False, False])
    assert made.seen["a"].pass_rate == 0.5 and made.seen["a"].step == 1


def test_tasks_come_by_the_length_of_their_reasonings():
    made = curriculum("reasoning_length", by_difficulty=0.9)

    def difficulties(progress):
        return {name.split("/")[1] for name in drawn(made, progress=progress, num=30)}

    assert difficulties(0.1) == {"easy"}
    assert difficulties(0.4) == {"easy", "medium"}
    assert difficulties(0.7) == {"easy", "medium", "hard"}


def test_every_category_is_drawn_as_often():
    made = curriculum("category")
    names = [drawn(made, step, num=1)[0].split("/")[0] for step in range(200)]
    assert 70 < names.count("matmul") < 130


def test_a_resumed_training_draws_what_it_would_have_drawn(tmp_path):
    made, other = curriculum(), curriculum()
    made.observe(0, drawn(made), [True, False, False, True])
    made.save(tmp_path)
    other.load(tmp_path)
    assert drawn(other, 1) == drawn(made, 1) and other.seen == made.seen
    assert drawn(made, 1) != drawn(made, 1), "a step that draws again draws others"


def test_a_range_that_is_none_is_refused():
    with pytest.raises(ValidationError, match=r"low=0.9 is above high=0.8"):
        curriculum(low=0.9)
