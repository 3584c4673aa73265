"""The picture of a step, of times that are known."""

import xml.etree.ElementTree

import tensorflow as tf

from tf_booster.pipeline.trace_drawing import Op, both, busy, svg

SVG = "{http://www.w3.org/2000/svg}"


def stats(*ops):
    """StepStats of ops: (name, type, thread, begin, end), microseconds."""
    made = tf.compat.v1.RunMetadata().step_stats
    device = made.dev_stats.add(device="/device:CPU:0")
    for name, kind, thread, begin, end in ops:
        device.node_stats.add(
            node_name=name,
            timeline_label=f"{name} = {kind}(x)",
            thread_id=thread,
            all_start_micros=begin,
            op_end_rel_micros=end - begin,
        )
    return made


MAIN = stats(("gather", "TfBoosterTableGather", 7, 5000, 6000), ("layer", "MatMul", 8, 6000, 9000))
AHEAD = [
    stats(("read", "IteratorGetNext", 3, 4000, 5500), ("probe", "TfBoosterTableProbe", 3, 5500, 6500)),
    stats(("read", "IteratorGetNext", 3, 8500, 10000)),
]


def bars(drawn):
    """What is told of each op, with its left and right end in pixels, of a picture that is a document."""
    root = xml.etree.ElementTree.fromstring(drawn)
    found = [
        (bar.find(SVG + "title"), float(bar.get("x", 0)), float(bar.get("width"))) for bar in root.iter(SVG + "rect")
    ]
    return {title.text: (x, x + width) for title, x, width in found if title is not None}


def test_both_halves_are_on_one_time_line_with_the_time_that_they_share():
    drawn = svg(MAIN, AHEAD, "Step 3")
    assert (
        "6.00 ms from first to last op: main graph 4.00 ms, embedding graphs, next steps 4.00 ms, both at once 2.00 ms"
        in drawn
    )
    found = bars(drawn)
    assert sorted(found) == [
        "gather (TfBoosterTableGather), 1000 µs",
        "layer (MatMul), 3000 µs",
        "probe (TfBoosterTableProbe), 1000 µs",
        "read (IteratorGetNext), 1500 µs",
    ]
    gather, layer = found["gather (TfBoosterTableGather), 1000 µs"], found["layer (MatMul), 3000 µs"]
    assert abs(gather[1] - layer[0]) < 0.2 and abs((layer[1] - layer[0]) - 3 * (gather[1] - gather[0])) < 0.5


def test_a_step_without_a_pipeline_is_drawn_alone():
    drawn = svg(MAIN, [], "Step 3")
    assert "the step 4.00 ms" in drawn and "both at once" not in drawn


def test_names_of_ops_are_text_and_nothing_else():
    drawn = svg(stats(("a<b>&\"c'", "Add<V2>", 1, 0, 500000)), [], "<Step> & 3")
    assert list(bars(drawn)) == ["a<b>&\"c' (Add<V2>), 500000 µs"]


def test_a_step_of_no_ops_is_a_picture_too():
    bars(svg(stats(), [], "Step 0"))
    bars(svg(stats(("a", "NoOp", 1, 77, 77)), [stats()], "Step 0"))


def test_times_that_touch_or_cover_each_other_count_once():
    times = [(0, 4), (1, 2), (4, 6), (9, 9), (8, 10)]
    spans = busy([Op("", "", 1, *time) for time in times])
    assert spans == [(0, 6), (8, 10)]
    assert both(spans, [(5, 9), (9, 20)]) == 1 + 1 + 1
    assert both(spans, []) == 0
