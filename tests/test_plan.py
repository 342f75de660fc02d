"""How many workers hide the reward: the model of the engine against what is known exactly, and the command."""

import json
import random

import pytest
import simpy

from kernelrl import cli
from kernelrl.commands.plan import draw, main, read_times
from kernelrl.errors import UserError
from kernelrl.executor.engines.simulation import Cluster, Engine, Job, Load, simulate
from kernelrl.records import Ledger, Record
from kernelrl.verdict import Build, Spent, Verdict, Violation


def jobs(number, group=8, **times):
    return [Job(task=index // group, **times) for index in range(number)]


def judged(cluster, batch, **load):
    return simulate(cluster, Load([batch], **load))


@pytest.mark.parametrize(
    ("cluster", "batch", "seconds"),
    [
        (Cluster(1, 1), jobs(6, check=2.0), 12.0),
        (Cluster(1, 3), jobs(6, check=2.0), 4.0),
        (Cluster(3, 1), jobs(6, check=2.0), 4.0),
        (Cluster(1, 1), jobs(6, static=1.0), 3.0),  # no place needed: as many at once as there are threads
        (Cluster(1, 4), jobs(4, check=1.0, timed=0.5), 3.0),  # all are checked at once, and timed one after the other
        (Cluster(1, 1), jobs(2, build=1.0, check=2.0, timed=3.0, reference=4.0), 16.0),  # the second waits while timed
        (Cluster(2, 1), jobs(2, build=1.0, check=2.0, timed=3.0, reference=4.0), 10.0),  # each node makes the reference
        (Cluster(1, 2), jobs(4, group=2, check=1.0, reference=5.0), 7.0),  # two references at once, then four checks
        (Cluster(1, 2), [Job(0, check=1.0, timed=10.0), Job(1, check=2.0)], 12.0),  # stopped after one second
        (Cluster(1, 2, gpu=True), jobs(2, group=1, build=5.0, check=2.0), 9.0),  # builds need no device, checks do
        (Cluster(1, 4, dispatch_s=1.0), jobs(4, check=0.5), 4.5),  # the driver is the bottleneck
        (Cluster(1, 1, dispatch_s=1.0), [Job(0)] * 5, 5.0),  # what is recalled costs the driver's time alone
    ],
)
def test_what_can_be_counted_by_hand(cluster, batch, seconds):
    outcome = judged(cluster, batch)
    assert outcome.judging_s == pytest.approx(seconds)
    assert outcome.throughput == pytest.approx(len(batch) / seconds)


def test_waiting_in_an_m_d_1_queue_is_as_pollaczek_and_khinchin_say():
    service, load, number = 1.0, 0.7, 40_000
    env = simpy.Environment()
    engine = Engine(env, Cluster(1, 1))
    dice = random.Random(0)

    def arrivals():
        for _ in range(number):
            yield env.timeout(dice.expovariate(load / service))
            engine.submit(Job("t", check=service))

    env.process(arrivals())
    env.run()
    mean = sum(engine.latencies) / number
    assert mean == pytest.approx(service + load * service / (2 * (1 - load)), rel=0.05)
    assert engine.worked_s / env.now == pytest.approx(load, rel=0.02)


@pytest.mark.parametrize("mtbf_s", [None, 20.0])
@pytest.mark.parametrize("gpu", [False, True])
def test_every_job_is_judged_once_whatever_is_lost(mtbf_s, gpu):
    batch = jobs(300, static=0.01, build=0.5, check=0.4, timed=0.2, reference=1.0)
    outcome = judged(Cluster(10, 2, gpu, 0.001, mtbf_s, repair_s=5.0), batch)
    assert len(outcome.latencies) == outcome.verdicts == 300
    assert (outcome.retried > 0) == (mtbf_s is not None)
    assert 0 < outcome.busy <= 1


def test_work_is_conserved():
    batch = jobs(64, check=0.5, timed=0.25, reference=1.0)
    outcome = judged(Cluster(1, 2), batch)
    work = 64 * (0.5 + 2 * 0.25) + 8 * 1.0
    assert outcome.busy * 2 * outcome.judging_s == pytest.approx(work)


def test_more_workers_are_never_slower_and_the_driver_is_the_limit():
    batch = jobs(2000, static=0.01, build=0.5, check=0.3, timed=0.1, reference=0.5)
    outcomes = [judged(Cluster(nodes, 2, dispatch_s=0.002), batch) for nodes in (1, 4, 16, 64, 256, 1024)]
    throughput = [outcome.throughput for outcome in outcomes]
    assert throughput == sorted(throughput)
    assert throughput[1] > 3.5 * throughput[0]
    assert throughput[-1] < 1 / 0.002 and throughput[-1] > 0.6 / 0.002
    latencies = [outcome.latency(99) for outcome in outcomes]
    assert latencies == sorted(latencies, reverse=True)


def test_judging_while_generating_hides_all_but_the_last():
    batch = jobs(100, group=1, check=1.0)
    after, meanwhile = (
        judged(Cluster(20, 1), batch, generation_s=10.0, train_s=5.0, overlap=overlap) for overlap in (False, True)
    )
    assert after.waiting_s == pytest.approx(5.0) and after.share_waiting == pytest.approx(5 / 20)
    assert meanwhile.waiting_s == pytest.approx(1.0) and meanwhile.share_waiting == pytest.approx(1 / 16)


def test_a_draw_keeps_groups_together_and_gives_each_a_task_of_its_own():
    quick, slow = [Job("a", check=1.0)], [Job("b", check=9.0)]
    steps = draw([quick, slow], batch=20, group=8, steps=2, seed=3)
    assert [len(step) for step in steps] == [20, 20]
    for step in steps:
        groups = [step[:8], step[8:16], step[16:]]
        assert all(len({(job.task, job.check) for job in group}) == 1 for group in groups)
        assert len({group[0].task for group in groups}) == 3
    assert draw([quick, slow], 20, 8, 2, 3) == steps


SPENT = Spent(waiting=2.0, reference=0.75, timed=0.25)
VERDICT = Verdict(
    task_id="t",
    candidate="c",
    status="correct",
    stage="correct",
    dialect="cpp",
    device="cpu",
    build=Build(ok=True, seconds=1.0, cached=False, units=1),
    seconds=5.0,
    spent=SPENT,
)
REFUSED = Verdict(
    task_id="t",
    candidate="d",
    status="illegal",
    stage="parsed",
    violations=(Violation(rule="no_kernel", evidence="none"),),
    dialect="cpp",
    device="cpu",
    seconds=0.01,
    spent=Spent(waiting=0, reference=0, timed=0),
)


@pytest.mark.parametrize(
    ("verdict", "job"),
    [
        (VERDICT, Job("t", build=1.0, check=1.0, timed=0.25, reference=0.75)),
        (VERDICT.model_copy(update={"build": None}), Job("t", check=2.0, timed=0.25, reference=0.75)),
        (VERDICT.model_copy(update={"spent": None}), None),
        (REFUSED, Job("t", static=0.01)),
    ],
)
def test_what_a_verdict_says_about_its_cost(verdict, job):
    assert Job.of(verdict) == job


def write_run(folder, verdicts, step_s=12.0, judge_s=2.0, interval=1):
    """Three batches of two groups of `verdicts`, one every `interval` steps."""
    records = [
        Record(
            id=f"grpo/{step}/{index}",
            stage="grpo",
            step=step,
            policy="p",
            task_id=f"{step} {group}",
            prompt="?",
            completion="!",
            verdict=verdict,
        )
        for step in range(0, 3 * interval, interval)
        for index, (group, verdict) in enumerate((group, verdict) for group in "ab" for verdict in verdicts)
    ]
    Ledger(folder / "grpo" / "records").append(records)
    logged = [(step + 1, step_s * (step + 1)) for step in range(3 * interval)]
    lines = [{"step": step, "seconds": seconds, "judge_seconds": judge_s} for step, seconds in logged]
    (folder / "grpo" / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.fixture
def run(tmp_path):
    write_run(tmp_path, [VERDICT, VERDICT.model_copy(update={"cached": True}), REFUSED])
    return tmp_path


def test_the_times_of_a_run(run):
    measured = read_times(run)
    assert (measured.batch, measured.group, measured.gpu) == (6, 3, False)
    assert len(measured.groups) == 6
    for built, recalled, refused in measured.groups:
        assert (built.build, built.check, built.timed, built.reference) == (1.0, 1.0, 0.25, 0.75)
        assert recalled.known and not refused.runs and refused.static == 0.01


def test_what_an_earlier_run_had_judged_counts_once(tmp_path):
    recalled = VERDICT.model_copy(update={"cached": True})
    write_run(tmp_path, [recalled, recalled])
    assert all([first.runs, second.known] == [True, True] for first, second in read_times(tmp_path).groups)


def test_the_command_takes_batch_and_rate_from_the_run(run, capsys):
    for folder in (run, run / "grpo", run / "grpo" / "records"):
        assert main([str(folder), "workers=1", "max_workers=10", "hide=0.3", "dispatch_ms=0", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["load"] == {"batch": 6, "generation_s": 10.0, "train_s": 0.0, "overlap": False, "steps": 3}
        assert [row["workers"] for row in found["rows"]] == [1, 2, 5, 10]
        shares = [row["share_waiting"] for row in found["rows"]]
        assert shares == sorted(shares, reverse=True)
        hiding = [row["workers"] for row in found["rows"] if row["share_waiting"] <= 0.3]
        assert found["answer"]["share_waiting"] <= 0.3 and found["answer"]["workers"] <= hiding[0]
        assert found["stages"]["build_s"] == 0.5 and found["stages"]["recalled"] == pytest.approx(1 / 3)


def test_a_batch_that_serves_several_steps(tmp_path, capsys):
    write_run(tmp_path, [VERDICT, REFUSED], step_s=3.0, interval=4)
    assert main([str(tmp_path), "max_workers=2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["load"]["generation_s"] == pytest.approx(4 * 3.0 - 2.0)


def test_stage_times_by_hand(capsys):
    words = ["check_s=1", "time_s=0", "rate=1", "batch=20", "workers=2", "dispatch_ms=0", "group=1", "max_workers=40"]
    assert main([*words, "hide=0.24"]) == 0
    said = capsys.readouterr().out
    assert "4 workers on 2 node(s) hide the reward: a step waits for it 20.0% of its time" in said  # 5 s of 25 s
    assert main([*words, "hide=0.01"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "No number of workers up to 40 hides the reward: with 20 a step still waits 4.8%" in said  # 1 s of 21 s
    assert main([*words, "hide=0.01", "batch=200", "--overlap"]) == 0
    assert "2 workers on 1 node(s) hide the reward: a step waits for it 0.5%" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{run}/nowhere"], "no record in it"),
        (["{run}", "--stage", "eval"], "no record of stage 'eval' in it; name another with --stage"),
        (["{run}", "rate=0"], "rate=0: Input should be greater than 0"),
        (["{run}", "rate=fast"], "rate=fast: Input should be a valid number"),
        (["{run}", "rat=1"], "unknown setting 'rat'; did you mean 'rate'?"),
        (["{run}", "check_s=1"], "check_s: .* says how long its stages take; leave out one of the two"),
        (["{run}", "{run}"], "one run at a time"),
        (["batch=5"], "give the folder of a run, or stage times"),
        (["check_s=0"], "are all 0: nothing to judge"),
        (["check_s=1"], "batch: how many completions has a step?"),
        (["check_s=1", "batch=8"], "rate: how many completions are generated in a second?"),
    ],
)
def test_bad_usage_is_one_line(run, arguments, message):
    with pytest.raises(UserError, match=message):
        main([word.format(run=run) for word in arguments])


def test_records_without_times_are_named(tmp_path, capsys):
    write_run(tmp_path, [VERDICT.model_copy(update={"spent": None, "cached": cached}) for cached in (False, True)])
    with pytest.raises(SystemExit) as end:
        cli.main(["plan", str(tmp_path)])
    assert end.value.code == 2
    assert "none of its 12 records of stage 'grpo' says where its time went" in capsys.readouterr().err


def test_a_log_that_does_not_say_how_long_judging_took_is_no_rate(run):
    (run / "grpo" / "log.jsonl").write_text('{"step": 1, "seconds": 3.0}\n')
    with pytest.raises(UserError, match="rate: how many"):
        main([str(run)])
