"""Horizontal bar charts of ratios as SVG: the line at 1×, a mark at each goal, a paler one at the floor."""

from __future__ import annotations

import dataclasses
import html
import math
from typing import List, Optional, Sequence, Tuple

from benchmarks.wording import ratio

WIDTH = 800
BAR, PITCH, ROW_GAP, PANEL_GAP = 11, 14, 6, 12
CHARACTER = 7.0  # Of text of 12 px in a wide font, on average.
VALUE_ROOM = 52
COLORS = (
    ("#2f6fb2", "#6aa8ea"),
    ("#c8752a", "#e79b55"),
    ("#3c8f5f", "#6cc393"),
    ("#8e5fb0", "#bd93de"),
    ("#b3508a", "#e08cbc"),
)
VERDICTS = (
    ("met", "met"),
    ("missed", "missed"),
    ("quiet", "beyond the floor"),
)  # Classes of figures, and what they mean.
LOG_SPREAD = 30  # Where the largest ratio is so often the smallest, small ones would vanish on a linear axis.

_RULES = """
svg.bars text { font: 12px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: %(text)s }
svg.bars .panel { font-weight: 600; font-size: 13px } svg.bars .quiet { fill: %(quiet)s }
svg.bars .card { fill: %(card)s; stroke: %(grid)s } svg.bars .grid { stroke: %(grid)s } svg.bars .one { stroke: %(text)s; stroke-width: 1.4 }
svg.bars .goal { stroke: %(text)s; stroke-width: 3 } svg.bars .floor { stroke: %(quiet)s; stroke-width: 2; stroke-dasharray: 3 2 }
svg.bars .met { fill: %(met)s } svg.bars .missed { fill: %(missed)s }
"""


def _rules(dark: bool) -> str:
    names = ("text", "quiet", "grid", "card", "met", "missed")
    light_colors = ("#1d242c", "#68737f", "#d9dfe6", "#ffffff", "#1b7a43", "#b3372b")
    dark_colors = ("#e8ecf1", "#98a4b1", "#38414c", "#161b22", "#5fcf8f", "#ff8d80")
    series = " ".join(f"svg.bars .s{i} {{ fill: {pair[dark]} }}" for i, pair in enumerate(COLORS))
    return _RULES % dict(zip(names, dark_colors if dark else light_colors)) + series


STYLE = f"{_rules(False)}\n@media (prefers-color-scheme: dark) {{{_rules(True)}\n}}"


@dataclasses.dataclass
class Bar:
    """One ratio. series: whose, an index of the chart's names. pale: of two threads. verdict: the class of its figure."""

    value: float
    series: int = 0
    pale: bool = False
    goal: Optional[float] = None
    floor: Optional[float] = None
    verdict: str = ""


@dataclasses.dataclass
class Row:
    label: str
    bars: List[Bar]

    @property
    def height(self) -> int:
        return PITCH * len(self.bars) + ROW_GAP


@dataclasses.dataclass
class Panel:
    """Rows under a title; without one where it is empty."""

    title: str
    rows: List[Row]


class Axis:
    """From ratios to places: linear from 0, or logarithmic where they are far apart. Bars begin at `start`."""

    def __init__(self, values: Sequence[float], left: float, right: float):
        low, high = min([*values, 1.0]), max([*values, 1.0])
        self._left, self._right = left, right
        self.log = high / low > LOG_SPREAD
        if self.log:
            steps = [m * 10.0**e for e in range(-6, 9) for m in (1, 2, 5)]
            self._low = max(step for step in steps if step <= low)
            self._high = min(step for step in steps if step >= high)
            self.ticks = [step for step in steps if self._low <= step <= self._high]
        else:
            step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if high / s <= 8)
            self._low, self._high = 0.0, math.ceil(high / step - 1e-9) * step
            self.ticks = [step * i for i in range(round(self._high / step) + 1)]
        self.start = self.place(1.0 if self.log else 0.0)

    def place(self, value: float) -> float:
        low, high, at = (
            (math.log(self._low), math.log(self._high), math.log(value)) if self.log else (self._low, self._high, value)
        )
        return self._left + (at - low) / (high - low) * (self._right - self._left)


def chart(
    panels: Sequence[Panel], names: Sequence[str], about: str, floor: str = "", pale: str = "", card: bool = False
) -> str:
    """An <svg>. names: of the series. floor, pale: what a floor's mark and a pale bar are. card: with style and background, for a file."""
    rows = [row for panel in panels for row in panel.rows]
    bars = [bar for row in rows for bar in row.bars]
    marks = [mark for bar in bars for mark in (bar.value, bar.goal, bar.floor) if mark]
    edge = 14 if card else 2
    left = edge + min(240, max(len(row.label) for row in rows) * CHARACTER + 14)
    axis = Axis(marks, left, WIDTH - edge - VALUE_ROOM)
    grid: List[str] = []
    body, y = _legend(names, floor, pale, bars, edge)
    for number, panel in enumerate(panels):
        y += PANEL_GAP * (number > 0)
        if panel.title:
            body.append(f'<text class="panel" x="{edge}" y="{y + 13}">{html.escape(panel.title)}</text>')
            y += 21
        top = y
        for row in panel.rows:
            middle = y + PITCH * len(row.bars) / 2 + 3
            body.append(f'<text x="{left - 8:.0f}" y="{middle:.0f}" text-anchor="end">{html.escape(row.label)}</text>')
            for i, bar in enumerate(row.bars):
                body += _bar(bar, axis, y + i * PITCH)
            y += row.height
        grid += [_upright("grid", axis.place(tick), top - 2, y) for tick in axis.ticks]
        body.append(_upright("one", axis.place(1.0), top - 2, y))
    for tick in axis.ticks:
        x = f"{axis.place(tick):.1f}"
        body.append(f'<text class="quiet" x="{x}" y="{y + 14}" text-anchor="middle">{tick:g}×</text>')
    if 1.0 not in axis.ticks and abs(axis.place(1.0) - axis.start) > 30:
        body.append(f'<text x="{axis.place(1.0):.1f}" y="{y + 14}" text-anchor="middle">1×</text>')
    height = y + 22 + edge
    first = f'<style>{STYLE}</style><rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>'
    return (
        f'<svg class="bars" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{html.escape(about)}">\n' + "\n".join([first * card, *grid, *body]) + "\n</svg>\n"
    )


def _upright(kind: str, x: float, top: float, bottom: float) -> str:
    return f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>'


def _bar(bar: Bar, axis: Axis, y: float) -> List[str]:
    end = axis.place(bar.value)
    x, width = min(axis.start, end), max(abs(end - axis.start), 1)
    opacity = ' fill-opacity=".5"' * bar.pale
    made = [
        f'<rect class="s{bar.series % len(COLORS)}"{opacity} x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}"/>'
    ]
    text = ratio(bar.value)
    at, room = max(end, axis.start) + 5, len(text) * 7 + 4
    for kind, mark in sorted((("floor", bar.floor), ("goal", bar.goal), ("one", 1.0)), key=lambda pair: pair[1] or 0):
        if mark:
            place = axis.place(mark)
            if kind != "one":  # Which is drawn for all bars at once.
                made.append(_upright(kind, place, y - 1, y + BAR + 1))
            if at - 5 < place + 3 and place - 3 < at + room:  # The figure stands behind a mark that it would cover.
                at = place + 6
    verdict = f' class="{bar.verdict}"' if bar.verdict else ""
    made.append(f'<text{verdict} x="{at:.1f}" y="{y + BAR - 1}">{text}</text>')
    return made


def _legend(names: Sequence[str], floor: str, pale: str, bars: Sequence[Bar], edge: int) -> Tuple[List[str], int]:
    """What colours and marks mean, in lines; and where the rows may begin."""
    items = [(f's{i % len(COLORS)}"', name) for i, name in enumerate(names)]
    if pale and any(bar.pale for bar in bars):
        items.append(('s0" fill-opacity=".5"', pale))
    items += [
        (kind, name) for kind, name in (("goal", "goal"), ("floor", floor)) if any(getattr(b, kind) for b in bars)
    ]
    verdicts = [(kind, name) for kind, name in VERDICTS if any(bar.verdict == kind for bar in bars)]
    if verdicts:  # What colours of figures mean: together, in a line.
        items.append(("", " / ".join(name for _, name in verdicts)))
    made, x, y = [], float(edge), edge
    for kind, name in items:
        sign = 17 * bool(kind)
        width = sign + len(name) * CHARACTER + 16
        if x + width > WIDTH - edge and x > edge:
            x, y = float(edge), y + 18
        text = html.escape(name)
        if kind in ("goal", "floor"):
            made.append(_upright(kind, x + 6, y, y + 12))
        elif kind:
            made.append(f'<rect class="{kind} x="{x:.1f}" y="{y}" width="11" height="11"/>')
        else:
            text = " / ".join(f'<tspan class="{kind}">{name}</tspan>' for kind, name in verdicts)
        made.append(f'<text x="{x + sign:.1f}" y="{y + 10}">{text}</text>')
        x += width
    return made, y + 24
