"""examples/deepfm_estimator.py as a program: plain without tf_booster at all, and boosted in both ways of writing tables."""

import glob
import os
import re
import subprocess
import sys

import pytest
import tensorflow as tf
from example_programs import EXAMPLES

import deepfm_estimator

PROGRAM = os.path.join(EXAMPLES, "deepfm_estimator.py")
SMALL = "--steps 12 --eval_every 6 --batch_size 64 --embedding_dim 3 --hidden 4 --buckets 40 --threads 1".split()


def run(folder, model_dir, environment, *arguments, blocked=False):
    """Runs the program to its end; with `blocked`, where importing tf_booster fails. Returns what it printed."""
    data = ["--data", folder + "/train-*", "--eval_data", folder + "/eval-*", "--model_dir", str(model_dir)]
    code = [PROGRAM]
    if blocked:
        code = [
            "-c",
            "import runpy, sys; sys.modules['tf_booster'] = None; sys.path.insert(0, %r); sys.argv[0] = %r;"
            "runpy.run_path(%r, run_name='__main__')" % (EXAMPLES, PROGRAM, PROGRAM),
        ]
    done = subprocess.run(
        [sys.executable] + code + data + SMALL + list(arguments),
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    auc = float(re.search(r"step 12: AUC ([0-9.]+)", done.stdout)[1])
    assert 0.3 < auc < 1.0
    exports = glob.glob(str(model_dir / "export" / "final" / "*"))
    assert len(exports) == 1 and exports[0] in done.stdout
    return done.stdout


def shapes(model_dir):
    return tf.train.load_checkpoint(str(model_dir)).get_variable_to_shape_map()


def test_plain_runs_where_tf_booster_is_not_installed(small_data, tmp_path, example_environment):
    out = run(small_data[0], tmp_path / "m", example_environment, "--no-booster", blocked=True)
    assert "tf_booster:" not in out  # No report. The path of the export may have the name in it.
    weights = {name: shape for name, shape in shapes(tmp_path / "m").items() if name.endswith("embedding_weights")}
    assert len(weights) == 26 and set(map(tuple, weights.values())) == {(40, 4)}


def test_boosted_with_hash_tables(small_data, tmp_path, example_environment):
    out = run(small_data[0], tmp_path / "m", example_environment, "--embeddings", "hash", "--optimizer", "adam")
    assert "26 table(s)" in out
    found = shapes(tmp_path / "m")
    rows = found["embedding/C3/keys"][0]
    assert 20 < rows <= 500 and found["embedding/C3/values"] == [rows, 4] and found["embedding/C3/slots/v"] == [rows, 4]
    assert not [name for name in found if name.endswith("embedding_weights")]


def test_boosted_with_hash_tables_under_feature_columns(small_data, tmp_path, example_environment):
    out = run(small_data[0], tmp_path / "m", example_environment, "--embeddings", "hash_column")
    assert "26 table(s)" in out
    assert len([name for name in shapes(tmp_path / "m") if name.endswith("/keys")]) == 26


def test_boosted_with_ordinary_columns(small_data, tmp_path, example_environment):
    run(small_data[0], tmp_path / "m", example_environment, "--booster", "--embeddings", "variable")
    assert len([name for name in shapes(tmp_path / "m") if name.endswith("embedding_weights")]) == 26


def test_embeddings_follow_the_booster_unless_named():
    need = ["--data", "d", "--model_dir", "m"]
    assert deepfm_estimator.parse_args(need).embeddings == "hash"
    assert deepfm_estimator.parse_args(need + ["--no-booster"]).embeddings == "variable"
    assert deepfm_estimator.parse_args(need + ["--embeddings", "variable"]).booster


def test_hash_tables_without_the_booster_are_refused_at_once(capsys):
    with pytest.raises(SystemExit):
        deepfm_estimator.parse_args(["--data", "d", "--model_dir", "m", "--no-booster", "--embeddings", "hash"])
    assert "--embeddings hash needs the booster" in capsys.readouterr().err
