"""A step's ops as a picture: a row for each thread, the two halves of a pipeline above each other on one time line."""

from __future__ import annotations

import html
from typing import Any, List, NamedTuple, Sequence, Tuple

# Pixels: the picture, the names of the rows, one row, the first row's top.
_WIDTH, _LEFT, _ROW, _FIRST = 1080, 250, 22, 92
_LETTER = 6.2  # Pixels of a letter, to know which names fit.
# The first kind of which a word is in the op's type.
_KINDS = (
    ("input", "#c9a227", ("Iterator", "ParseExample", "Decode", "DeserializeSparse")),
    ("products", "#3b6fb5", ("MatMul", "Conv2D", "_Fused", "Einsum", "PairDots", "BiasGrad")),
    ("tables and lookups", "#2f8f5b", ("TfBoosterTable", "Lookup", "Gather", "Unique", "Sparse", "Scatter")),
    ("collectives", "#b5483b", ("Horovod", "Collective")),
    ("other ops", "#9aa5b1", ("",)),
)


class Op(NamedTuple):
    """One op of a step. Times are microseconds from the beginning of the picture."""

    name: str
    kind: str
    thread: int
    begin: int
    end: int


def svg(main: Any, ahead: Sequence[Any], title: str) -> str:
    """Draws one step.

    Args:
      main: StepStats of the step.
      ahead: StepStats of embedding graphs that ran meanwhile, if there were any.
      title: what the picture is called.

    Returns:
      An SVG document. Pointing at an op shows its name, type and time.
    """
    halves = [("main graph" if ahead else "the step", _ops([main])), ("embedding graphs, next steps", _ops(ahead))]
    begin = min((op.begin for _, ops in halves for op in ops), default=0)
    halves = [
        (name, [op._replace(begin=op.begin - begin, end=op.end - begin) for op in ops]) for name, ops in halves if ops
    ]
    length = max([1] + [op.end for _, ops in halves for op in ops])
    scale = (_WIDTH - _LEFT - 20) / length
    body, y = [], _FIRST
    for name, ops in halves:
        for row, thread in enumerate(sorted({op.thread for op in ops})):
            told = name if row == 0 else ""
            body.append(f'<text class="row" x="12" y="{y + 15}">{html.escape(told)}</text>')
            body.append(f'<rect class="lane" x="{_LEFT}" y="{y}" width="{_WIDTH - _LEFT - 20}" height="{_ROW - 4}"/>')
            body += [_bar(op, y, scale) for op in ops if op.thread == thread]
            y += _ROW
        y += 10
    return "\n".join(_head(title, _told(halves, length), y + 26) + body + _axis(length, scale, y) + ["</svg>"]) + "\n"


def busy(ops: Sequence[Op]) -> List[Tuple[int, int]]:
    """The times in which at least one op runs, as intervals that do not touch, in order."""
    merged: List[Tuple[int, int]] = []
    for begin, end in sorted((op.begin, op.end) for op in ops):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def both(a: Sequence[Tuple[int, int]], b: Sequence[Tuple[int, int]]) -> int:
    """How long both run, of what `busy` gave for each; microseconds."""
    return sum(max(0, min(x[1], y[1]) - max(x[0], y[0])) for x in a for y in b)


def _ops(all_stats: Sequence[Any]) -> List[Op]:
    found = []
    for device in (device for stats in all_stats for device in stats.dev_stats):
        for node in device.node_stats:
            kind = node.timeline_label.partition(" = ")[2].partition("(")[0] or node.node_name
            begin = node.all_start_micros + node.op_start_rel_micros
            end = node.all_start_micros + max(node.op_start_rel_micros, node.op_end_rel_micros)
            found.append(Op(node.node_name, kind, node.thread_id, begin, end))
    return found


def _told(halves: Sequence[Tuple[str, List[Op]]], length: int) -> str:
    times = [(name, busy(ops)) for name, ops in halves]
    parts = [f"{name} {sum(e - b for b, e in spans) / 1e3:.2f} ms" for name, spans in times]
    if len(times) == 2:
        parts.append(f"both at once {both(times[0][1], times[1][1]) / 1e3:.2f} ms")
    return f"{length / 1e3:.2f} ms from first to last op: " + ", ".join(parts)


def _colour(kind: str) -> str:
    return next(colour for _, colour, words in _KINDS if any(word in kind for word in words))


def _bar(op: Op, y: int, scale: float) -> str:
    x, width = _LEFT + op.begin * scale, max(0.6, (op.end - op.begin) * scale)
    tip = html.escape(f"{op.name} ({op.kind}), {op.end - op.begin} µs")
    bar = f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 4}" fill="{_colour(op.kind)}"><title>{tip}</title></rect>'
    name = op.kind.replace("TfBooster", "")
    if len(name) * _LETTER + 6 < width:
        bar += f'<text class="op" x="{x + 3:.1f}" y="{y + 13}">{html.escape(name)}</text>'
    return bar


def _head(title: str, told: str, height: int) -> List[str]:
    legend, x = [], _LEFT
    for name, colour, _ in _KINDS:
        legend.append(
            f'<rect x="{x}" y="64" width="12" height="12" fill="{colour}"/><text x="{x + 17}" y="74">{name}</text>'
        )
        x += 40 + int(len(name) * 7)
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="system-ui, sans-serif" font-size="12">',
        "<style>.lane { fill: #f4f6f8 } .op { fill: #fff; font-size: 10px; pointer-events: none } text { fill: #222 } .h { font-size: 17px; font-weight: 600 }</style>",
        f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#fff"/>',
        f'<text class="h" x="12" y="28">{html.escape(title)}</text>',
        f'<text x="12" y="48">{html.escape(told)}</text>',
    ] + legend


def _axis(length: int, scale: float, y: int) -> List[str]:
    step = 1
    while length / step > 12:  # 1, 2, 5, 10, … microseconds
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    ticks = [f'<path d="M{_LEFT} {y}H{_WIDTH - 20}" stroke="#9aa5b1"/>']
    for at in range(0, length + 1, step):
        x = _LEFT + at * scale
        ticks.append(
            f'<path d="M{x:.1f} {y}v4" stroke="#9aa5b1"/><text x="{x:.1f}" y="{y + 17}" text-anchor="middle">{at / 1e3:g}</text>'
        )
    return ticks + [f'<text x="12" y="{y + 17}">milliseconds</text>']
