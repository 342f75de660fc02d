"""Who judges what: bounds, affinity, stealing, retries, fairness; and every job ends exactly once."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from executor_cases import request
from kernelrl.errors import UserError
from kernelrl.executor import ExecutorSettings, make_executor
from kernelrl.executor.api import MAX_STARTS, deciding_settings
from kernelrl.executor.engines.dispatch import Dispatcher, Job


def jobs(numbers: range, task: str = "0", client: str = "") -> list[Job]:
    return [Job(number, client, request(None, f"# {task}")) for number in numbers]


def hand_out(desk: Dispatcher) -> list[tuple[str, int]]:
    pairs = iter(desk.next, None)
    return [(worker.name, job.number) for worker, job in pairs]


def test_a_worker_gets_no_more_than_it_can_take_and_the_rest_waits() -> None:
    desk = Dispatcher()
    desk.add(jobs(range(10)))
    desk.join("a", 2)
    desk.join("b", 3)
    assert Counter(name for name, _ in hand_out(desk)) == {"a": 2, "b": 3}
    assert desk.num_queued == 5 and desk.num_in_flight == 5


def test_requests_of_a_task_go_where_its_reference_is() -> None:
    desk = Dispatcher()
    desk.join("a", 4)
    desk.join("b", 4)
    desk.add([*jobs(range(4), "x"), *jobs(range(4, 8), "y")])
    places = dict((number, name) for name, number in hand_out(desk))
    assert len({places[number] for number in range(4)}) == 1
    assert len({places[number] for number in range(4, 8)}) == 1


def test_an_idle_worker_takes_from_a_busy_one() -> None:
    desk = Dispatcher()
    desk.join("a", 2)
    desk.add(jobs(range(4), "x"))
    hand_out(desk)
    desk.join("b", 2)
    assert [name for name, _ in hand_out(desk)] == ["b", "b"]


def test_a_lost_workers_jobs_come_first_and_are_lost_after_as_many_starts() -> None:
    desk = Dispatcher()
    desk.add(jobs(range(2)))
    for start in range(1, MAX_STARTS + 1):
        desk.join(f"w{start}", 1)
        assert hand_out(desk) == [(f"w{start}", 0)]
        again, lost = desk.leave(f"w{start}")
        assert ([job.number for job in again], [job.number for job in lost]) == (([0], []) if start < 3 else ([], [0]))
    assert desk.finish("w1", 0) is None, "a late answer is dropped"
    desk.join("last", 2)
    assert hand_out(desk) == [("last", 1)]


def test_what_a_worker_could_say_nothing_about_goes_to_another() -> None:
    desk = Dispatcher()
    desk.join("a", 1)
    desk.add(jobs(range(1)))
    hand_out(desk)
    job = desk.finish("a", 0)
    assert job is not None and desk.retry(job, "a")
    desk.join("b", 1)
    assert hand_out(desk) == [("b", 0)]


def test_clients_take_turns_within_their_quota() -> None:
    desk = Dispatcher(quota=2)
    desk.add(jobs(range(100), client="greedy"))
    desk.add(jobs(range(100, 104), client="modest"))
    desk.join("a", 8)
    numbers = [number for _, number in hand_out(desk)]
    assert sorted(numbers) == [0, 1, 100, 101] and {number < 100 for number in numbers[:2]} == {True, False}
    desk.finish("a", 0)
    assert hand_out(desk) == [("a", 2)]


def test_a_cancelled_job_is_not_handed_out_and_its_answer_is_dropped() -> None:
    desk = Dispatcher()
    desk.join("a", 1)
    desk.add(jobs(range(3)))
    hand_out(desk)
    desk.cancel("", [0, 1])
    assert desk.finish("a", 0) is None
    assert hand_out(desk) == [("a", 2)]
    desk.cancel("")
    assert desk.leave("a") == ([], [])


@pytest.mark.parametrize("seed", range(20))
def test_every_job_ends_once_whoever_leaves(seed: int) -> None:
    luck = random.Random(seed)
    desk = Dispatcher()
    desk.add(Job(number, f"client {number % 3}", request(None, f"# {number % 7}")) for number in range(300))
    ended: Counter[int] = Counter()
    held: list[tuple[str, int]] = []
    names = iter(range(10_000))
    while desk.num_queued or desk.num_in_flight:
        if len(desk.workers) < 3:
            desk.join(f"w{next(names)}", luck.randint(1, 5))
        held += hand_out(desk)
        if luck.random() < 0.1:
            ended.update(job.number for job in desk.leave(luck.choice(list(desk.workers)))[1])
        name, number = held.pop(luck.randrange(len(held)))
        job = desk.finish(name, number)
        if job is not None and not (luck.random() < 0.1 and desk.retry(job, name)):
            ended[number] += 1
    assert ended == dict.fromkeys(range(300), 1)


def test_where_it_is_judged_does_not_decide() -> None:
    on_ray = ExecutorSettings(engine="ray", cluster={"min_nodes": 7})  # type: ignore[arg-type]
    assert deciding_settings(on_ray.model_dump()) == deciding_settings(ExecutorSettings().model_dump())


def test_without_ray_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install 'kernelrl\[ray\]'"):
        make_executor({"engine": "ray"})
