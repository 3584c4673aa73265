"""Corrupt and truncated checkpoints, a full disk, a process that dies while it saves: an error, and nothing lost."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from checkpoint_tables import Table

from tf_booster.checkpoint.saveable import TableSaveable

v1 = tf.compat.v1


class Model:
    """A table alone, in a session."""

    def __init__(self):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.table = Table(dim=8)
            self.saver = v1.train.Saver([TableSaveable(self.table)])
        self.session = v1.Session(graph=self.graph)

    def save(self, path):
        with self.graph.as_default():
            return self.saver.save(self.session, str(path), write_meta_graph=False)

    def restore(self, path):
        with self.graph.as_default():
            self.saver.restore(self.session, str(path))


@pytest.fixture
def saved(tmp_path):
    """A checkpoint of 1000 rows, and a model with other rows that is to restore it."""
    first, second = Model(), Model()
    first.table.train(first.session, range(1000))
    path = first.save(tmp_path / "m")
    second.table.train(second.session, [7, -7])
    yield path, second
    first.session.close()
    second.session.close()


def damage(path, where, how):
    name = path + where
    with open(name, "r+b") as file:
        size = os.path.getsize(name)
        if how == "truncated":
            file.truncate(size // 2)
        elif how == "emptied":
            file.truncate(0)
        else:
            file.seek(size // 2)
            byte = file.read(1)[0]
            file.seek(size // 2)
            file.write(bytes([byte ^ 0xFF]))


@pytest.mark.parametrize("how", ["truncated", "emptied", "changed"])
@pytest.mark.parametrize("where", [".index", ".data-00000-of-00001"])
def test_a_damaged_checkpoint_is_an_error_and_leaves_the_table(saved, where, how):
    path, model = saved
    damage(path, where, how)
    kept = model.table.contents(model.session)
    with pytest.raises(tf.errors.DataLossError, match=r"TableRestore 'user_emb'.*restore an earlier checkpoint"):
        model.restore(path)
    assert model.table.contents(model.session) == kept
    model.table.train(model.session, [8])


def test_a_missing_data_file(saved):
    path, model = saved
    os.remove(path + ".data-00000-of-00001")
    kept = model.table.contents(model.session)
    with pytest.raises((tf.errors.NotFoundError, tf.errors.DataLossError), match="TableRestore 'user_emb'"):
        model.restore(path)
    assert model.table.contents(model.session) == kept


def test_no_checkpoint(tmp_path):
    model = Model()
    with pytest.raises(ValueError, match="not a valid checkpoint"):
        model.restore(tmp_path / "nothing")


TRAINER = """
    import os, resource, signal, sys, threading, time
    import numpy as np
    import tensorflow as tf
    import tf_booster

    model_dir, rows, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    tf.enable_gpu_booster()

    def model_fn(features, labels, mode):
        tables = [tf_booster.get_hash_table(name, 16) for name in ("user_emb", "item_emb")]  # Fused to one resource.
        loss = tf.add_n([tf.reduce_sum(tf_booster.embedding_lookup(table, features)) for table in tables])
        step = tf.compat.v1.train.get_global_step()
        train_op = tf.compat.v1.train.AdagradOptimizer(0.1).minimize(loss, step)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn():
        return tf.data.Dataset.range(rows).batch(rows)

    def die_while_saving():
        # A sharded Saver writes below <checkpoint>_temp, and removes that folder at the end.
        while not any("model.ckpt" in n and "_temp" in n and os.listdir(os.path.join(model_dir, n))
                      for n in os.listdir(model_dir)):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    made = tf.estimator.Estimator(model_fn, model_dir)
    if how == "full disk":
        # Writing beyond this many bytes of a file fails as on a full disk, with an error in place of a signal.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    if how == "kill":
        class Die(tf.estimator.SessionRunHook):
            def after_run(self, run_context, run_values):
                threading.Thread(target=die_while_saving, daemon=True).start()
        hooks = [Die()]
    else:
        hooks = []
    made.train(input_fn, hooks=hooks)
    assert any("2 tables" in line for each in tf_booster.report().passes for line in each.changes)
    print("trained")
"""


def run_trainer(model_dir, rows, how):
    script = textwrap.dedent(TRAINER)
    return subprocess.run(
        [sys.executable, "-c", script, str(model_dir), str(rows), how], capture_output=True, text=True, timeout=300
    )


def check_the_first_checkpoint_is_whole(model_dir, rows):
    latest = tf.train.latest_checkpoint(str(model_dir))
    assert latest.endswith("model.ckpt-1")
    reader = tf.train.load_checkpoint(latest)
    for table in ("user_emb", "item_emb"):
        assert sorted(reader.get_tensor(f"{table}/keys")) == list(range(rows))
    # It restores too: another run goes on from it.
    assert run_trainer(model_dir, rows, "").returncode == 0
    reader = tf.train.load_checkpoint(str(model_dir))
    for table in ("user_emb", "item_emb"):
        assert set(reader.get_tensor(f"{table}/frequencies")) == {2}
        assert np.isfinite(reader.get_tensor(f"{table}/values")).all()


def test_a_full_disk_is_an_error_and_the_old_checkpoint_stays(tmp_path):
    assert run_trainer(tmp_path, 100, "").returncode == 0
    failed = run_trainer(tmp_path, 50_000, "full disk")
    assert failed.returncode != 0 and "trained" not in failed.stdout
    assert "File too large" in failed.stderr and "model.ckpt" in failed.stderr
    check_the_first_checkpoint_is_whole(tmp_path, 100)


def test_a_process_killed_while_it_saves_leaves_the_old_checkpoint(tmp_path):
    assert run_trainer(tmp_path, 100, "").returncode == 0
    killed = run_trainer(tmp_path, 300_000, "kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    assert not os.path.exists(tmp_path / "model.ckpt-2.index")
    assert any("_temp" in name for name in os.listdir(tmp_path)), "it died before it began to save"
    check_the_first_checkpoint_is_whole(tmp_path, 100)
