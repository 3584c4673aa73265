"""Reading: Criteo's TSV with missing values, CSV with a header, generated TFRecords, and what is held out."""

import gzip
import math

import numpy as np
import pytest
import tensorflow as tf

from criteo.columns import CATEGORICAL, LABEL, NUMERIC
from criteo.inputs import HELD_OUT, MISSING_ID, find_source, input_fn, parse_lines

FULL = ["1"] + [str(i) for i in range(1, 14)] + ["%08x" % (0xF0000000 + i) for i in range(26)]


def row(**changes):
    names = [LABEL] + NUMERIC + CATEGORICAL
    return [changes.get(name, value) for name, value in zip(names, FULL)]


def hashed(text):
    return int(tf.strings.to_hash_bucket_fast(text, 2**63 - 1))


def read(path, training=False, batch_size=4):
    features, labels = next(iter(input_fn(str(path), batch_size, training, eval_path=str(path))()))
    return {name: value.numpy() for name, value in features.items()}, labels.numpy()


def test_tsv_with_missing_values(tmp_path):
    path = tmp_path / "train.txt"
    lines = [row(), row(label="0", I1="", I2="-3", C1="", C26="")]
    path.write_text("".join("\t".join(line) + "\n" for line in lines))
    features, labels = read(path)
    assert labels.tolist() == [1.0, 0.0]
    assert features["I1"][0] == 1.0 and math.isnan(features["I1"][1])
    assert features["I2"].tolist() == [2.0, -3.0]
    assert features["C1"].tolist() == [hashed("f0000000"), MISSING_ID]
    assert features["C26"].tolist() == [hashed("f0000019"), MISSING_ID]
    assert features["C2"].tolist() == [hashed("f0000001")] * 2
    assert set(features) == set(NUMERIC + CATEGORICAL)
    assert all(features[n].dtype == np.int64 and features[n].shape == (2,) for n in CATEGORICAL)


def test_all_values_missing(tmp_path):
    path = tmp_path / "day_0"
    path.write_text("0" + "\t" * 39 + "\n")
    features, labels = read(path)
    assert labels.tolist() == [0.0]
    assert all(math.isnan(features[n][0]) for n in NUMERIC)
    assert all(features[n][0] == MISSING_ID for n in CATEGORICAL)


def test_compressed_tsv(tmp_path):
    path = tmp_path / "day_0.gz"
    with gzip.open(path, "wt") as f:
        f.write("\t".join(row(label="0")) + "\n")
    features, labels = read(path)
    assert labels.tolist() == [0.0] and features["I13"].tolist() == [13.0]


def test_csv_with_columns_in_another_order(tmp_path):
    path = tmp_path / "sample.csv"
    names, values = [LABEL] + NUMERIC + CATEGORICAL, row(I3="260.0", I4="")
    path.write_text(",".join(["other"] + names[::-1]) + "\n" + ",".join(["x"] + values[::-1]) + "\n")
    features, labels = read(path)
    assert labels.tolist() == [1.0]
    assert features["I3"].tolist() == [260.0] and math.isnan(features["I4"][0])
    assert features["C5"].tolist() == [hashed("f0000004")]


def test_a_line_with_too_few_fields_is_an_error_that_says_so():
    from criteo.inputs import Source

    with pytest.raises(tf.errors.InvalidArgumentError, match="40 fields"):
        parse_lines(tf.constant(["1\t2\t3"]), Source(["x"], "text"))


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="no files"):
        find_source(str(tmp_path / "absent*"))
    (tmp_path / "short.txt").write_text("1\t2\t3\n")
    with pytest.raises(ValueError, match="has 3 fields; wanted 40"):
        find_source(str(tmp_path / "short.txt"))
    (tmp_path / "header.csv").write_text("label,I1,C1\n")
    with pytest.raises(ValueError, match="no column I2"):
        find_source(str(tmp_path / "header.csv"))


def test_held_out_records_are_a_tenth_and_never_trained_on(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("".join("\t".join(row(I1=str(i))) + "\n" for i in range(205)))
    held = [x for f, _ in input_fn(str(path), 16)() for x in f["I1"].numpy()]
    assert held == [float(i) for i in range(0, 205, HELD_OUT)]
    trained = [x for f, _ in input_fn(str(path), 23, training=True)().take(40) for x in f["I1"].numpy()]
    assert set(trained) == set(map(float, range(205))) - set(held)
    assert trained[:184] != sorted(trained[:184])


def test_generated_records_repeat_in_training_and_end_in_evaluation(small_data):
    folder, meta = small_data
    train, held = folder + "/train-*", folder + "/eval-*"
    batches = list(input_fn(train, 500, training=True, eval_path=held)().take(5))
    assert all(labels.shape == (500,) for _, labels in batches)
    evaluated = [labels.numpy() for _, labels in input_fn(train, 128, eval_path=held)()]
    assert [len(labels) for labels in evaluated] == [128, 128, 44]
    assert sum(labels.sum() for labels in evaluated) == meta["eval"]["positives"]
    assert sum(len(labels) for _, labels in input_fn(train, 128, eval_path=held, limit=200)()) == 200
