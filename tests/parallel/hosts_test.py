"""The launcher over two hosts, as `-H` names them: each rank on its own, one shared model_dir, one checkpoint of both."""

import json
import os
import subprocess
import sys

import checkpoint_ranks
import pytest
import tensorflow as tf
from hosts import two_hosts

SCRIPT = """
import json, os, sys
import tensorflow as tf
import tf_booster
from tf_booster.parallel import ranks

tf_booster.enable_gpu_booster()
here = ranks.current()
tf.compat.v1.disable_eager_execution()
v1 = tf.compat.v1
ids = v1.data.make_one_shot_iterator(tf.data.Dataset.range(40).batch(5)).get_next()
rows = tf_booster.embedding_lookup(tf_booster.get_hash_table("user", 3, seed=4), ids)
loss = tf.reduce_mean(tf.square(rows - 1.0))
op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())
read = []
with v1.train.MonitoredTrainingSession(checkpoint_dir=sys.argv[1]) as session:
    while not session.should_stop():
        read += session.run([ids, op])[0].tolist()
host = os.environ["HOROVOD_HOSTNAME"]
with open(f"{sys.argv[1]}.{here.rank}", "w") as file:
    json.dump([here.rank, here.size, here.local_rank, here.local_size, host, read], file)
"""


def test_a_job_of_two_hosts(tmp_path):
    script, model_dir = tmp_path / "train.py", str(tmp_path / "model")
    script.write_text(SCRIPT)
    with two_hosts(str(tmp_path)) as hosts:
        environment = {**os.environ, "PATH": os.pathsep.join([hosts.path, os.environ["PATH"]])}
        on = ",".join(f"{address}:1" for address in hosts.addresses)
        flags = ["-np", "2", "-H", on, "--disable-cache"]
        command = [*hosts.enter, sys.executable, "-m", "tf_booster.run", *flags, str(script), model_dir]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        asked = set(open(hosts.asked, encoding="ascii").read().split())
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert hosts.addresses[1] in asked
    told = [json.load(open(f"{model_dir}.{rank}", encoding="ascii")) for rank in range(2)]
    assert [place[:5] for place in told] == [[rank, 2, 0, 1, hosts.addresses[rank]] for rank in range(2)]
    assert sorted(told[0][5] + told[1][5]) == list(range(40)) and len(told[0][5]) == 20
    assert "2 ranks train together, 1 of them on this machine" in ended.stderr
    tensors = checkpoint_ranks.read(tf.train.latest_checkpoint(model_dir))
    assert tensors["user/keys"].tolist() == list(range(40)) and tensors["global_step"] == 4


def test_ssh_takes_the_host_between_its_options(tmp_path):
    with two_hosts(str(tmp_path)) as hosts:
        ssh = [os.path.join(hosts.path, "ssh"), "-o", "A=no", hosts.addresses[1], "-o", "B=1"]
        said = subprocess.run([*ssh, "cd /", ";", "pwd"], capture_output=True, text=True, check=True).stdout
        with pytest.raises(subprocess.CalledProcessError):
            subprocess.run([ssh[0], "elsewhere", "true"], capture_output=True, check=True)
    assert said == "/\n" and hosts.kind in ("namespaces", "loopback")
    assert not os.path.exists("/run/netns") or not [
        n for n in os.listdir("/run/netns") if n.startswith(f"tfb{os.getpid()}")
    ]
