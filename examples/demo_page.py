"""The demo's results as a table for the terminal, PNG plots, and one self-contained HTML page."""

from __future__ import annotations

import base64
import html
import os
import platform
from typing import Dict, List, Tuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

COLORS = {"plain": "#8a8f98", "boosted": "#0b7a75", "exact": "#3b5bdb", "async": "#a23b9e", "ranks": "#b5651d"}
PIPELINES = ("exact", "async")
LABELS = {
    "plain": "TensorFlow alone, hashed buckets",
    "boosted": "tf_booster, hash tables",
    "exact": "tf_booster, pipeline exact",
    "async": "tf_booster, pipeline async",
    "ranks": "tf_booster, two ranks",
}


def speed(result: Dict) -> float:
    """Samples per second of all ranks in steady state: the median over the turns."""
    speeds = [s["samples_per_second"] for s in result["speeds"]]
    return num_ranks(result) * float(np.median(speeds)) if speeds else float("nan")


def num_ranks(result: Dict) -> int:
    return result["report"]["size"] if result["report"] else 1


def summary_rows(meta: Dict, results: Dict) -> List[Tuple[str, ...]]:
    """(what, and its value for each of the results) for the table."""
    reachable = meta["eval"]["reachable_auc"]

    def each(what, show):
        return (what, *(show(result) for result in results.values()))

    def last(result):
        return result["growth"][-1]

    return [
        each(
            "embeddings",
            lambda r: {"variable": "hashed-bucket feature columns", "hash": "hash tables"}[r["settings"]["embeddings"]],
        ),
        each("AUC (reachable %.4f)" % reachable, lambda r: "%.4f" % r["auc"]),
        each("AUC against pipeline off", lambda r: _against(r, results["boosted"])),
        each("log loss", lambda r: "%.4f" % r["loss"]),
        each("samples/s, training", lambda r: f"{speed(r):,.0f}"),
        each("ratio", lambda r: "%.2f" % (speed(r) / speed(results["plain"]))),
        each("time of a step", lambda r: "%.2f ms" % step_ms(r)),
        each("embedding graph, main graph, waiting", _halves),
        each("bound by", bound_by),
        each("input pipeline, of a step's processor time", _input_share),
        each("collectives a step", _collectives),
        each("tables", lambda r: "%d of width %d" % (last(r)["tables"], 1 + r["settings"]["embedding_dim"])),
        each("rows", lambda r: "{:,}".format(last(r)["rows"])),
        each("checkpoint", lambda r: "%.1f MB" % (last(r)["bytes"] / 1e6)),
        each("export reloaded", lambda r: _agreement(r["served"]) if "served" in r else "–"),
    ]


def step_ms(result: Dict) -> float:
    """Of one step of all ranks together, in steady state."""
    return 1e3 * num_ranks(result) * result["settings"]["batch_size"] / speed(result)


def bound_by(result: Dict) -> str:
    """Which part of a step with a pipeline takes longest. The report's own answer counts turns of other processes as the program's."""
    if not _pipelined(result):
        return "–"
    ms = result["report"]["pipeline"]
    between = step_ms(result) - ms["main_ms"] - ms["waiting_ms"]
    parts = {"main graph": ms["main_ms"], "embedding graph": ms["embedding_ms"], "program": between}
    return max(parts, key=parts.get)


def _pipelined(result: Dict) -> bool:
    return bool(result["report"] and result["report"]["pipeline"])


def _halves(result: Dict) -> str:
    if not _pipelined(result):
        return "–"
    ms = result["report"]["pipeline"]
    return "%.2f, %.2f, %.2f ms" % (ms["embedding_ms"], ms["main_ms"], ms["waiting_ms"])


def _against(result: Dict, off: Dict) -> str:
    if not _pipelined(result):
        return "–"
    difference = result["auc"] - off["auc"]
    return "%+.4f" % difference if difference else "identical"


def _collectives(result: Dict) -> str:
    counts = result["report"]["collectives_per_step"] if num_ranks(result) > 1 else {}
    return ", ".join("%s %d" % (kind, count) for kind, count in counts.items() if count) or "–"


def _input_share(result: Dict) -> str:
    if "input_processor_seconds" not in result:
        return "–"
    alone, step = result["input_processor_seconds"], result["step_processor_seconds"]
    return "%.0f %% (%.1f of %.1f ms)" % (100 * alone / step, 1e3 * alone, 1e3 * step)


def _agreement(served: Dict) -> str:
    difference = served["largest_difference"]
    return "%s, %d records" % ("equal within %.0e" % difference if difference else "identical", served["records"])


def accelerations(report: Dict) -> List[str]:
    """What was active in the boosted training graph, one line a pass, from its report."""
    lines = []
    for p in report["passes"]:
        what = "changed the graph: %d changes" % len(p["changes"]) if p["modified"] else "changed nothing"
        lines.append("%s: %s, %d skipped" % (p["name"], what, len(p["skipped"])))
    optimizers = sorted({str(t["optimizer"]) for t in report["tables"]})
    lines.append(
        "%d hash tables on %s, fused update: %s" % (len(report["tables"]), report["device"], ", ".join(optimizers))
    )
    return lines


def _headings(results: Dict) -> List[str]:
    names = {name: "pipeline " + name for name in PIPELINES}
    return [
        "boosted, %d ranks" % num_ranks(result) if name == "ranks" else names.get(name, name)
        for name, result in results.items()
    ]


def print_table(meta: Dict, results: Dict) -> None:
    rows = [("", *_headings(results))] + summary_rows(meta, results)
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    print()
    for i, row in enumerate(rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
        if i == 0:
            print("  ".join("-" * width for width in widths))


def _axes(title: str, ylabel: str, xlabel: str = "training step"):
    figure, axes = plt.subplots(figsize=(6.4, 3.6), dpi=110, constrained_layout=True)
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(True, color="#e4e6ea", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def plot_auc(meta: Dict, results: Dict, path: str) -> None:
    figure, axes = _axes("AUC on the evaluation records", "AUC")
    reachable = meta["eval"]["reachable_auc"]
    axes.axhline(reachable, color="#c0392b", linestyle="--", linewidth=1.2, label="reachable: %.4f" % reachable)
    for name, r in results.items():
        axes.plot(
            [e["step"] for e in r["evaluations"]],
            [e["auc"] for e in r["evaluations"]],
            "o-",
            markersize=4,
            color=COLORS[name],
            label=LABELS[name],
        )
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    _save(figure, path)


def plot_speed(meta: Dict, results: Dict, path: str) -> None:
    figure, axes = _axes("Training speed, turn by turn", "thousand samples per second")
    for name, r in results.items():
        axes.plot(
            [s["step"] for s in r["speeds"]],
            [num_ranks(r) * s["samples_per_second"] / 1000 for s in r["speeds"]],
            ".-",
            linewidth=0.8,
            color=COLORS[name],
            label=LABELS[name],
        )
        axes.axhline(speed(r) / 1000, color=COLORS[name], linewidth=2, alpha=0.5)
    axes.set_ylim(bottom=0)
    axes.legend(loc="best", frameon=False, fontsize=9)
    _save(figure, path)


def plot_growth(meta: Dict, results: Dict, path: str) -> None:
    figure, axes = _axes("Rows of all embeddings", "thousand rows")
    for name, r in results.items():
        axes.plot(
            [g["step"] for g in r["growth"]],
            [g["rows"] / 1000 for g in r["growth"]],
            "o-",
            markersize=4,
            color=COLORS[name],
            label=LABELS[name],
        )
    axes.set_ylim(bottom=0)
    axes.legend(loc="best", frameon=False, fontsize=9)
    _save(figure, path)


PLOTS = [("auc.png", plot_auc), ("samples_per_second.png", plot_speed), ("table_growth.png", plot_growth)]


def _save(figure, path: str) -> None:
    figure.savefig(path)
    plt.close(figure)


_STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #20242b; background: #fff; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin-top: 2rem } p.lead { font-size: 1.1rem }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid #e4e6ea }
th:nth-child(3), td:nth-child(3) { color: #0b7a75; font-weight: 600 } figure { margin: 1rem 0 } img { max-width: 100%; height: auto }
pre { background: #f6f7f9; padding: 1rem; overflow-x: auto; font-size: .85rem; line-height: 1.45 } .note { color: #5b626d; font-size: .9rem }
"""


_PIPELINE_NOTE = """ The boosted program was trained with its embedding pipeline, too: the embedding graph of the next step (input,
distinct ids, their places; in async mode the rows as well) ran while the main graph of this one did. Exact gives the numbers of
the boosted run; in async mode a row may be one update old. A step waits where its embedding graph has not ended before the last main graph."""
_RANKS_NOTE = """ The run on %d ranks came after these, alone on the machine: each rank has one thread, its part of the records, and
a batch so much smaller that a step sees as many records as the others."""


def write_page(out: str, meta: Dict, results: Dict, seconds: float) -> str:
    """Writes the plots and report.html into `out`; the page embeds the plots. Returns its path."""
    figures = []
    for file, plot in PLOTS:
        path = os.path.join(out, file)
        plot(meta, results, path)
        with open(path, "rb") as f:
            figures.append(
                '<figure><img alt="%s" src="data:image/png;base64,%s"></figure>'
                % (file[:-4].replace("_", " "), base64.b64encode(f.read()).decode())
            )
    rows = summary_rows(meta, results)
    table = "".join("<tr>%s</tr>" % "".join("<td>%s</td>" % html.escape(cell) for cell in row) for row in rows)
    boosted, settings = results["boosted"], results["boosted"]["settings"]
    active = "".join("<li>%s</li>" % html.escape(line) for line in accelerations(boosted["report"]))
    lead = (
        "The same DeepFM, the same data: AUC %.4f and %.4f of a reachable %.4f; %.2f times the samples per second."
        % (
            results["plain"]["auc"],
            boosted["auc"],
            meta["eval"]["reachable_auc"],
            speed(boosted) / speed(results["plain"]),
        )
    )
    page = os.path.join(out, "report.html")
    with open(page, "w", encoding="utf-8") as f:
        f.write(
            """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>tf_booster demo</title><style>%s</style></head><body>
<h1>tf_booster demo</h1>
<p class="lead">%s</p>
<table><thead><tr><th></th>%s</tr></thead><tbody>%s</tbody></table>
%s
<h2>What was active in the boosted run</h2><ul>%s</ul>
<p class="note">What is not listed was TensorFlow's own in both runs. Part of the difference is the way of writing: the boosted
program looks ids up directly, the plain one through feature columns, which turn them into sparse tensors and strings first. Tables under
feature columns work too: --embeddings hash_column.</p>
<h2>How it was measured</h2>
<p>%s training records and %s evaluation records, shaped like Criteo's, with planted effects. The reachable AUC is that of the true
click probability on the evaluation records. Batch size %d, optimizer %s, %.3g pass(es) over the data. Plain means %s hashed buckets a field under
TensorFlow's embedding_column, of the same width as the hash tables. The processes took turns of 25 steps, so all saw the same machine;
the first steps of a turn, and those around a checkpoint, are not counted. Speeds are medians over the turns. The input pipeline, from files to parsed batches,
was run once more without the model, by TensorFlow's parser in the plain process and by tf_booster's in the other; its processor time, over all
threads, is set against that of a training step. The exports were
loaded in fresh processes and gave the predictions of the Estimators.%s</p>
<p class="note">%s, %d cores, Python %s, TensorFlow %s. The whole demo took %.0f s.</p>
<h2>tf_booster.report() of the training graph</h2><pre>%s</pre>
</body></html>
"""
            % (
                _STYLE,
                html.escape(lead),
                "".join("<th>%s</th>" % html.escape(heading) for heading in _headings(results)),
                table,
                "\n".join(figures),
                active,
                "{:,}".format(meta["train"]["records"]),
                "{:,}".format(meta["eval"]["records"]),
                settings["batch_size"],
                settings["optimizer"],
                settings["steps"] * settings["batch_size"] / meta["train"]["records"],
                "{:,}".format(settings["buckets"]),
                _PIPELINE_NOTE + (_RANKS_NOTE % num_ranks(results["ranks"]) if "ranks" in results else ""),
                html.escape(platform.machine()),
                os.cpu_count(),
                platform.python_version(),
                boosted["tensorflow"],
                seconds,
                html.escape(boosted["report_text"]),
            )
        )
    return page
