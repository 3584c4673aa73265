"""A run as a page, as the section of docs and as pictures, from small results that are made up (goals_test.py has the verdicts)."""

import html.parser
import json
import pathlib
import re
import xml.etree.ElementTree as xml

import pytest

from benchmarks import __main__ as runs
from benchmarks import charts, compare, contests, goals, machine, markdown, page, peers, two_threads
from benchmarks.described import BENCHMARKS

ROOT = pathlib.Path(contests.__file__).resolve().parent


def result(benchmark, rates, what="op", dim=16, distribution="uniform", threads=1, facts=None, unit="M keys/s"):
    return {
        **dict(benchmark=benchmark, what=what, dim=dim, distribution=distribution, threads=threads, unit=unit),
        **dict(rates=rates, facts=facts or {}),
    }


def run_of(*results, **machine_facts):
    return contests.of({"machine": machine_facts, "results": list(results)})


def svgs(text):
    return [xml.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


class Elements(html.parser.HTMLParser):
    """The names of all elements, and their text, unescaped."""

    def __init__(self, text):
        super().__init__()
        self.names, self.words = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)

    def handle_data(self, data):
        self.words += data


FIND = {"tf_booster": 80.0, "TFRA": 10.0, "bare loop": 100.0}


def everything(threads=(1, 2)):
    """A result of every benchmark, with peers that the real ones have."""
    rates = {"tf_booster": 30.0, "TFRA": 2.0, "TensorFlow": 20.0, "bare loop": 50.0, "tf_booster tables": 9.0}
    return [result(name, rates, threads=count, facts={"unique": "31%"}) for name in BENCHMARKS for count in threads]


@pytest.mark.parametrize("threads", [(1,), (2,), (1, 2)])
def test_the_page_has_every_benchmark_and_stands_alone(threads):
    text = page.page(run_of(*everything(threads), processor="A <fast> one", family=26, model=2, cores=2))
    seen = Elements(text)
    assert [name for name in BENCHMARKS if f'id="{name}"' not in text] == []
    assert "A <fast> one, family 26, model 2, 2 cores" in seen.words and "fast" not in seen.names
    assert not {"script", "link", "img"} & set(seen.names)
    assert re.findall(r"(?:https?:)?//\S+", text.replace("http://www.w3.org/2000/svg", "")) == []
    assert len(svgs(text)) >= len(BENCHMARKS)
    assert seen.words.count("paler: two threads") == (len(BENCHMARKS) if threads == (1, 2) else 0)


def test_bars_end_at_their_ratios_with_marks_at_goal_and_floor():
    run = run_of(result("find", FIND), result("find", {"tf_booster": 40.0, "TFRA": 10.0}, distribution="zipf"))
    (svg,) = svgs(charts.of_benchmark(run.contests, goals.judge(run)))
    found = {kind: [e for e in svg if e.get("class") == kind] for kind in ("s0", "goal", "floor", "one")}
    bars = [e for e in found["s0"] if float(e.get("width")) > 11]
    zero, widths = float(bars[0].get("x")), [float(bar.get("width")) for bar in bars]
    assert widths[0] / widths[1] == pytest.approx(2.0, rel=0.01)
    per = widths[0] / 8
    floor, *goals_at = [
        float(e.get("x1")) for kind in ("floor", "goal") for e in found[kind] if float(e.get("y1")) > 20
    ]
    (one,) = [float(e.get("x1")) for e in found["one"]]
    assert floor == pytest.approx(zero + 10 * per, abs=1) and one == pytest.approx(zero + per, abs=1)
    assert goals_at == pytest.approx([zero + 8 * per, zero + 6 * per], abs=1)
    assert [e.text for e in svg if e.get("class") in ("met", "missed")] == ["8.0×", "4.0×"]


def test_ratios_far_apart_are_drawn_by_their_logarithms():
    rates = {"tf_booster": 10.0, "quick": 100.0, "slow": 0.1}
    (svg,) = svgs(charts.of_benchmark(run_of(result("find", rates)).contests, goals.judge(run_of())))
    bars = [e for e in svg if e.get("class") in ("s0", "s1") and float(e.get("width")) > 11]
    assert float(bars[1].get("width")) == pytest.approx(2 * float(bars[0].get("width")), rel=0.01)
    assert float(bars[0].get("x")) < float(bars[1].get("x")), "slower than the peer is left of 1×"


def test_odd_names_are_escaped():
    odd = "<u>&\"| '"
    results = [
        result("find", {"tf_booster": 8.0, odd: 1.0}, what=odd, distribution=odd, facts={odd: odd}, unit=odd),
        result(odd, {"tf_booster": 8.0, odd: 1.0}),
    ]
    run = run_of(*results, processor=odd)
    text = page.page(run)
    assert "u" not in Elements(text).names and odd in Elements(text).words
    assert len(svgs(text)) == 2
    section = markdown.section(run, goals.judge(run), [])
    assert "<u>" not in section
    assert len(columns(section)) > 2


def columns(text):
    """The number of columns of each Markdown table; all its lines must have it."""
    found = []
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(counts) == 1, block
        found += counts
    return found


DOCS = f"# Benchmarks\n\nbefore\n\n{markdown.BEGIN}\nearlier | figures\n{markdown.END}\n\nbehind ## a run\n"


def test_docs_get_the_section_and_keep_everything_else(tmp_path):
    (tmp_path / "docs").mkdir()
    path = tmp_path / "docs" / "benchmarks.md"
    path.write_text(DOCS, encoding="utf-8")
    results = tmp_path / "results.json"
    content = {"machine": {"processor": "Some", "threads": [1, 2]}, "results": everything()}
    results.write_text(json.dumps(content), encoding="utf-8")
    arguments = [str(results), "--out", str(tmp_path / "page.html"), "--docs", str(tmp_path / "docs")]
    assert page.main(arguments) == 0 and (tmp_path / "page.html").exists()
    text = path.read_text(encoding="utf-8")
    before, behind = DOCS.split(f"{markdown.BEGIN}\nearlier | figures\n{markdown.END}")
    assert text.startswith(before) and text.endswith(behind) and "earlier" not in text
    assert "| dim | keys | ours, 1 thread | 2 | over TFRA, 1 thread | 2 |" in text
    assert "find, dim 16, uniform: ≥ 8× TFRA | uniform" not in text and "find, dim 16, uniform: ≥ 8× TFRA |" in text
    shown = re.findall(r"\]\((images/[^)]+)\)", text)
    assert len(shown) >= 2
    for name in shown:
        drawn = xml.parse(tmp_path / "docs" / name).getroot()
        assert drawn.tag.endswith("svg") and len(drawn) > 10
    again = text
    page.main(arguments)
    assert path.read_text(encoding="utf-8") == again


@pytest.mark.parametrize("text", ["", markdown.BEGIN, f"{markdown.END} {markdown.BEGIN}", DOCS + markdown.END])
def test_docs_without_both_marks_are_refused(text):
    with pytest.raises(ValueError, match="tables of a run: end"):
        markdown.replaced(text, "inside")


def test_the_page_of_docs_has_the_marks():
    markdown.replaced((ROOT.parent / "docs" / "benchmarks.md").read_text(encoding="utf-8"), "inside")


def test_rows_of_a_table_have_as_many_columns_as_its_headings():
    run = run_of(*everything(), result("find", {"tf_booster": 1.0}, distribution="alone"))
    text = markdown.section(run, goals.judge(run), [])
    assert len(columns(text)) > len(BENCHMARKS)


def test_two_results_of_one_contest_are_refused():
    with pytest.raises(ValueError, match="tell them apart"):
        run_of(result("find", FIND), result("find", FIND))
    run_of(result("find", FIND), result("find", FIND, threads=2))


def test_ratios_and_gains_of_such_a_file(tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": everything()}), encoding="utf-8")
    assert len(compare.ratios(str(path))) == 2 * len(BENCHMARKS)
    assert len(two_threads.gains(everything())) == len(BENCHMARKS)


def test_a_run_of_some_benchmarks_ends_with_its_page(tmp_path, monkeypatch, capsys):
    ran = lambda name, threads, options: [result(name, FIND, threads=threads)] if name == "find" else []
    monkeypatch.setattr(runs, "run_process", ran)
    monkeypatch.setattr(peers, "install", lambda: None)
    monkeypatch.setattr(machine, "probe", lambda: {"copy_gb_per_s": 30.0, "random_line_ns": 7.0})
    out = tmp_path / "out" / "results.json"
    monkeypatch.setattr("sys.argv", ["benchmarks", "find", "find", "unique", "--threads", "1", "--out", str(out)])
    assert runs.main() == 1
    *_, written, failed = capsys.readouterr().out.splitlines()
    assert str(out) in written and str(out.with_suffix(".html")) in written
    assert failed == "failed: unique with 1 threads"
    assert "copy 30.0 GB/s, a random 64-byte line 7.0 ns" in out.with_suffix(".html").read_text(encoding="utf-8")
    found = json.loads(out.read_text())["machine"]
    assert found["processor"] and found["threads"] == [1] and found["date"]


def test_the_processor_is_read_as_the_kernel_tells_it(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n\nmodel\t: 9\n")
    found = machine.processor(str(path))
    assert (found["processor"], found["family"], found["model"]) == ("AMD EPYC", 26, 2) and found["cores"] >= 1
    assert machine.processor(str(tmp_path / "none"))["cores"] >= 1
    assert contests.machine_line({}) == "an unknown machine"
    line = contests.machine_line({**found, "cores": 2, "threads": [1, 2], "date": "2026-01-02"})
    assert line == "AMD EPYC, family 26, model 2, 2 cores; 2026-01-02, 1 and 2 threads"
