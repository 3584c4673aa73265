"""The hook that draws steps of a pipeline."""

import json

import pytest
from pipelined import dataset, train

import tf_booster
from tf_booster.pipeline.trace_hook import AHEAD


@pytest.mark.parametrize("mode", ["exact", "off"])
def test_a_chosen_step_has_both_halves_on_one_time_line(mode, tmp_path):
    hook = tf_booster.PipelineTraceHook([2], str(tmp_path / "traces"))
    train(mode, tmp_path / "model", lambda: dataset(5), hooks=[hook])
    assert [path.name for path in (tmp_path / "traces").glob("*.json")] == ["trace-2.json"]
    assert len(list((tmp_path / "traces").glob("events*"))) == 1
    assert ("both at once" in (tmp_path / "traces" / "trace-2.svg").read_text()) == (mode == "exact")
    with open(tmp_path / "traces" / "trace-2.json") as file:
        events = json.load(file)["traceEvents"]
    lanes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    ahead = [e for e in events if e["ph"] == "X" and AHEAD in lanes[e["pid"]]]
    main = [e for e in events if e["ph"] == "X" and AHEAD not in lanes[e["pid"]]]
    ran = lambda which, op: any(e["name"] == op for e in which)
    assert ran(main, "TfBoosterTableApplyAdagrad") and ran(main, "TfBoosterTableGather")
    assert ran(ahead, "TfBoosterTableProbe") == (mode == "exact")
    assert ran(main, "TfBoosterTableProbe") == (mode == "off")


@pytest.mark.parametrize(
    "steps, folder, error, message",
    [
        ("5", "x", TypeError, "steps is '5', wanted a list of integers"),
        (5, "x", TypeError, "steps is 5, wanted a list of integers"),
        ([1.5], "x", TypeError, "a step is 1.5, wanted an integer"),
        ([-1], "x", ValueError, "a step is -1, wanted an integer from 0"),
        ([], "x", ValueError, "steps is empty"),
        ([1], None, TypeError, "output_dir is None, wanted a path"),
        ([1], "", ValueError, "output_dir is empty"),
    ],
)
def test_steps_that_no_session_has(steps, folder, error, message):
    with pytest.raises(error, match=f"PipelineTraceHook: {message}"):
        tf_booster.PipelineTraceHook(steps, folder)


def test_steps_are_those_of_each_session(tmp_path):
    hook = tf_booster.PipelineTraceHook([1], tmp_path / "traces")
    for name in ("first", "second"):
        train("exact", tmp_path / name, lambda: dataset(3), hooks=[hook])
        (tmp_path / "traces" / "trace-1.json").unlink()
