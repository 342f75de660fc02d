"""The demo can learn speed: examples of several speeds stand under one prompt that does not tell which."""

import re
from collections import Counter

import pytest
from omegaconf import OmegaConf

from kernelrl.configs import compose_config
from kernelrl.data.graph.chain import make_task
from kernelrl.data.teachers import make_teacher
from kernelrl.data.teachers.template.chain import LEVELS
from kernelrl.errors import UserError

OPS = ("gelu", "add_bias", "layer_norm", "mse_loss")


def propose(num_levels, rows=64):
    teacher = make_teacher(OmegaConf.create({"name": "template", "chain_levels": num_levels}), "cpp")
    return teacher.propose(make_task(OPS, rows, 32), "cpp")


def test_a_chain_is_written_at_as_many_speeds_as_are_asked_for_each_with_two_reasonings():
    for num_levels in (1, 2, 4):
        proposals = propose(num_levels)
        assert set(Counter(each.source for each in proposals).values()) == {2}
        assert len({each.level for each in proposals}) == len({each.source for each in proposals}) == num_levels
        assert len({each.completion() for each in proposals}) == 2 * num_levels
    assert [each.level for each in propose(1)] == [LEVELS[0].name] * 2
    assert [each.level for each in propose(4)[::2]] == [level.name for level in LEVELS], "fastest first"
    assert propose(2) == propose(2)


def test_over_tasks_every_speed_is_drawn_as_often():
    drawn = Counter(each.level for rows in range(1, 401) for each in propose(2, rows)[::2])
    assert all(drawn[level.name] == pytest.approx(200, abs=40) for level in LEVELS)


def test_levels_differ_in_threads_and_vectors_and_the_reasoning_says_so():
    for proposal, level in zip(propose(4)[::2], LEVELS, strict=True):
        assert ("#pragma omp parallel for reduction(+ : total)" in proposal.source) == level.threads
        assert ("-march=native" in proposal.source) == level.native
        assert ("each thread takes a row" in proposal.reasoning) == level.threads
        assert ("those of this machine" in proposal.reasoning) == level.native
    bodies = {re.sub(r".*#pragma omp.*\n|FLAGS = .*", "", each.source) for each in propose(4)}
    assert len(bodies) == 1, "beside that, they are the same"


def test_too_many_levels_are_refused():
    with pytest.raises(UserError, match="teacher.chain_levels=5 is not possible; give 1 to 4"):
        propose(5)


def test_the_recipe_for_speed_trains_on_several_speeds():
    cfg = compose_config("pipeline", ["recipe=speed"])
    assert cfg.curate.teachers[0].teacher.chain_levels > 1 and cfg.selection.levels == "all"
