"""python -m tf_booster.tfrecord: make, inspect, bench."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from tf_booster.tfrecord import reading, wire
from tf_booster.tfrecord.__main__ import main


@pytest.fixture
def made(tmp_path):
    path = str(tmp_path / "records")
    features = ["label:float:1", "C*3:int64:1:100", "seen:int64:0-5:9000000000000000000", "word:bytes:2"]
    arguments = [argument for feature in features for argument in ("--feature", feature)]
    assert main(["make", path, "--records", "50", *arguments]) == 0
    return path


def test_made_records_parse(made):
    spec = {
        "label": tf.io.FixedLenFeature([], tf.float32),
        "C3": tf.io.FixedLenFeature([], tf.int64),
        "seen": tf.io.RaggedFeature(tf.int64),
        "word": tf.io.FixedLenFeature([2], tf.string),
    }
    batch = next(iter(tf.data.TFRecordDataset(made).batch(50).map(lambda s: tf.io.parse_example(s, spec))))
    assert batch["C3"].numpy().max() < 100 and len(set(batch["C3"].numpy())) > 10
    assert set(batch["seen"].row_lengths().numpy()) == set(range(6))


def test_make_is_decided_by_the_seed(made, tmp_path):
    again, other = str(tmp_path / "again"), str(tmp_path / "other")
    for path, seed in ((again, "0"), (other, "1")):
        schema = tmp_path / "schema.json"
        schema.write_text(json.dumps({"a": {"type": "int64", "length": [1, 3], "below": 50}, "b": {"type": "float"}}))
        assert main(["make", path, "--schema", str(schema), "--seed", seed, "--records", "9"]) == 0
    first = list(tf.data.TFRecordDataset(again).as_numpy_iterator())
    assert first != list(tf.data.TFRecordDataset(other).as_numpy_iterator())
    assert [f.name for f in wire.features(first[0])] == ["a", "b"]


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_inspect(tmp_path, capsys, compression):
    path = str(tmp_path / "records")
    arguments = ["--feature", "a:int64:2:100", "--feature", "b:float:0-3", "--compression", compression]
    assert main(["make", path, "--records", "30", *arguments]) == 0
    assert main(["inspect", path, "--records", "20"]) == 0
    text = capsys.readouterr().out
    assert "30 records, 20 of them taken apart" in text and "checksums: all right" in text
    assert "key order: as in the record before in 100.0%" in text
    row = next(line for line in text.splitlines() if line.startswith("a "))
    assert row.split() == ["a", "int64", "100%", "2", "1"]


def test_inspect_tells_orders_widths_and_strange_records(tmp_path, capsys):
    path = str(tmp_path / "records")
    one, two = (
        tf.train.Features(feature={name: tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))})
        for name, value in (("x", -1), ("y", 300))
    )
    forth, back = (b"\x0a" + bytes([len(c)]) + c for c in (
        one.SerializeToString() + two.SerializeToString(), two.SerializeToString() + one.SerializeToString()
    ))  # fmt: skip
    with tf.io.TFRecordWriter(path) as writer:
        for record in (forth, back, forth, forth, b"\xff"):
            writer.write(record)
    assert main(["inspect", path]) == 1
    text = capsys.readouterr().out
    assert "1 records are no tf.train.Examples" in text and "in 50.0% of the records" in text
    assert any(line.split() == ["x", "int64", "100%", "1", "10"] for line in text.splitlines())
    assert any(line.split() == ["y", "int64", "100%", "1", "2"] for line in text.splitlines())


def test_inspect_finds_wrong_checksums(made, capsys):
    with open(made, "r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([last[0] ^ 1]))
    assert main(["inspect", made]) == 1
    text = capsys.readouterr().out
    assert "49 records" in text, text
    assert f"checksums: {made}, behind 49 records: corrupted record at" in text and "{{" not in text


def test_bench(made, capsys):
    assert main(["bench", made, "--rounds", "1", "--batch-size", "8"]) == 0
    text = capsys.readouterr().out
    assert "TFRecordExampleDataset" in text and "6 features" in text


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["inspect", "/none/*"], "no file matches"),
        (["make", "x"], "no features"),
        (["make", "x", "--feature", "a"], "name:type"),
        (["make", "x", "--feature", "a:int32"], "wanted one of int64"),
        (["make", "x", "--feature", "a:int64:3-1"], "low end first"),
        (["make", "x", "--feature", "a:int64:n"], "integers"),
        (["make", "x", "--feature", "a:int64", "--feature", "a:float"], "named twice"),
        (["make", "x", "--feature", "C*0:int64"], "0 features; wanted 1 or more"),
        (["make", "x", "--schema", "/none.json"], "none.json"),
    ],
)
def test_friendly_errors(arguments, message, capsys):
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "schema, message",
    [
        (b"{", "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b"[1]", "wanted features by name"),
        (b'{"a": 1}', "wanted type, length and below"),
        (b'{"a": {"length": "x"}}', "wanted integers"),
        (b'{"a": {"length": [1, 2, 3]}}', "wanted integers"),
        (b'{"a": {"length": 1.5}}', "wanted integers"),
        (b'{"a": {"below": "x"}}', "wanted integers"),
    ],
)
def test_schemas_that_cannot_be(tmp_path, schema, message, capsys):
    path = tmp_path / "schema.json"
    path.write_bytes(schema)
    assert main(["make", str(tmp_path / "made"), "--schema", str(path)]) == 1
    error = capsys.readouterr().err
    assert str(path) in error and message in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "x", "--records", "0"],
        ["bench", "x", "--rounds", "0"],
        ["bench", "x", "--batch-size", "0"],
        ["make", "x", "--feature", "a:float", "--records", "-5"],
        ["make", "x", "--feature", "a:float", "--seed", "-5"],
    ],
)
def test_numbers_that_are_too_small(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    option, number = arguments[-2:]
    assert ended.value.code == 2 and f"argument {option}: {number} is less than" in capsys.readouterr().err


def test_the_wire_walker_agrees_with_protobuf():
    rng = np.random.default_rng(0)
    example = tf.train.Example()
    example.features.feature["i"].int64_list.value.extend(rng.integers(-(2**63), 2**63 - 1, 20).tolist())
    example.features.feature["f"].float_list.value.extend([1.5, -2.25])
    example.features.feature["b"].bytes_list.value.extend([b"", b"x"])
    found = {f.name: list(f.values) for f in wire.features(example.SerializeToString())}
    for name, feature in example.features.feature.items():
        assert found[name] == list(getattr(feature, feature.WhichOneof("kind")).value)


def test_progress_is_silent_where_nobody_watches(capsys):
    progress = reading.Progress(10)
    progress.at(5)
    progress.end()
    assert capsys.readouterr().err == ""
