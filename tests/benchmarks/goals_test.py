"""What a run says to the goals, from small results that are made up; and that all names in goals are those of the benchmarks."""

import ast
import pathlib

from benchmarks import __main__ as runs
from benchmarks import contests, goals, wording
from benchmarks.described import BENCHMARKS, PEER_NAMES

ROOT = pathlib.Path(contests.__file__).resolve().parent


def result(benchmark, rates, what="op", dim=16, distribution="uniform", threads=1, facts=None, unit="M keys/s"):
    return {
        **dict(benchmark=benchmark, what=what, dim=dim, distribution=distribution, threads=threads, unit=unit),
        **dict(rates=rates, facts=facts or {}),
    }


def run_of(*results, **machine_facts):
    return contests.of({"machine": machine_facts, "results": list(results)})


def verdicts_of(*results):
    """{what is asked for: verdict} of all contests."""
    judged = goals.judge(run_of(*results)).judged
    return {wording.wanted(goal): [j.verdict for j in found] for goal, found in judged.items()}


FIND = {"tf_booster": 80.0, "TFRA": 10.0, "bare loop": 100.0}


def test_a_goal_is_met_missed_or_beyond_the_floor():
    assert verdicts_of(result("find", FIND)) == {"≥ 8× TFRA": ["met"]}
    assert verdicts_of(result("find", {**FIND, "tf_booster": 79.0})) == {"≥ 8× TFRA": ["missed"]}
    assert verdicts_of(result("find", {"tf_booster": 70.0, "TFRA": 10.0, "bare loop": 79.0})) == {
        "≥ 8× TFRA": ["beyond the floor"]
    }
    assert verdicts_of(result("find", {"tf_booster": 79.0, "TFRA": 10.0})) == {"≥ 8× TFRA": ["missed"]}
    assert verdicts_of(result("find", FIND, dim=64)) == {}, "no goal at dim 64"


def test_what_the_second_thread_brings_is_judged_by_what_it_brings_to_the_bare_loop():
    one = {"tf_booster": 40.0, "TFRA insert": 4.0, "bare loop": 60.0}
    two = {"tf_booster": 60.0, "TFRA insert": 4.0, "bare loop": 120.0}
    asked = "two threads ≥ 1.8× one"
    results = [result("find_or_insert", rates, threads=i) for i, rates in ((1, one), (2, two))]
    assert verdicts_of(*results)[asked] == ["missed"]
    two["bare loop"] = 100.0
    assert verdicts_of(*results)[asked] == ["beyond the floor"]
    two["tf_booster"] = 72.0
    assert verdicts_of(*results)[asked] == ["met"]


def test_threads_that_parse_are_judged_by_processes_that_share_nothing():
    rates = {"tf_booster": 17.0, "TensorFlow": 2.0, "ours on one processor": 10.0, "a process on each": 19.0}
    of = lambda: result("file_to_batch", rates, what="fixed", dim=0, distribution="39x1", threads=2)
    asked = "two threads ≥ 1.8× one"
    assert verdicts_of(of())[asked] == ["missed"]
    rates["a process on each"] = 17.5
    assert verdicts_of(of())[asked] == ["beyond the floor"]
    gzip = {**of(), "distribution": "39x1-64bit-gz"}
    assert verdicts_of(gzip) == {}, "its floor is zlib"


def test_what_the_pipeline_costs_is_a_fact_in_percent():
    rates = {"tf_booster": 1.0, "off": 1.0}
    asked = "≤ 2 % longer than without"
    costs = {"+2.0 %": "met", "-6.3 %": "met", "+2.1 %": "missed"}
    for cost, verdict in costs.items():
        assert verdicts_of(result("pipeline_cost", rates, what="demo", facts={"cost": cost}))[asked] == [verdict]
    assert verdicts_of(result("pipeline_cost", rates, what="demo")) == {}


def test_goals_without_a_measurement_say_why():
    found = goals.judge(
        run_of(
            result("find", {"tf_booster": 80.0, "tf.lookup": 20.0}),
            result("unique", {"tf.unique": 1.0, "tf_booster": 9.0}),
        )
    )
    why = {(wording.where(goal), wording.wanted(goal)): reason for goal, reason in found.unmeasured.items()}
    assert why["find, dim 16, uniform", "≥ 8× TFRA"] == "TFRA did not run"
    assert why["find, dim 128, zipf", "≥ 8× TFRA"] == "not run"
    assert why["unique, 2 threads", "≥ 10× tf.unique"] == "not run with 2 threads"
    assert (
        goals.judge(run_of(result("find_or_insert", FIND))).unmeasured[goals.GOALS[5]] == "not run with 1 and 2 threads"
    )
    assert found.count("met") == 1 and len(found.judged) + len(found.unmeasured) == len(goals.GOALS)


def test_every_benchmark_is_described_and_every_contestant_of_a_goal_exists():
    assert list(BENCHMARKS) and set(BENCHMARKS) == set(runs.NAMES)
    literals = {
        node.value
        for path in ROOT.glob("*.py")
        if path.name not in ("goals.py", "described.py", "contests.py", "charts.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    named = {goal.peer for goal in goals.GOALS} - {goals.ONE_THREAD} | {name for _, _, name in PEER_NAMES}
    named |= {*contests.FLOORS, *contests.BESIDE} - {"tf_booster tables"}
    # The peers of find_or_insert are called "… insert".
    assert sorted(name for name in named if name.replace(" insert", "") not in literals) == []
