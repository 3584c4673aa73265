"""The launcher: what it sets for a rank, what it tells of a job that failed, and real jobs of two processes without TensorFlow."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tf_booster import run
from tf_booster.parallel import rank_process
from tf_booster.parallel.job_output import Exit, JobOutput


@pytest.fixture
def machine(tmp_path):
    """A machine of files: NUMA nodes by their lists of processors, cards by their nodes."""

    def make(nodes, cards=()):
        for i, cpus in enumerate(nodes):
            folder = tmp_path / f"sys/devices/system/node/node{i}"
            folder.mkdir(parents=True)
            (folder / "cpulist").write_text(cpus + "\n")
        for i, node in enumerate(cards):
            address = f"0000:{i + 10:02x}:00.0"
            (tmp_path / "proc/driver/nvidia/gpus" / address).mkdir(parents=True)
            (tmp_path / "sys/bus/pci/devices" / address).mkdir(parents=True)
            (tmp_path / "sys/bus/pci/devices" / address / "numa_node").write_text(f"{node}\n")
        return str(tmp_path)

    return make


def bind(root, rank, size, allowed=None, **environment):
    env = {"HOROVOD_LOCAL_RANK": str(rank), "HOROVOD_LOCAL_SIZE": str(size), **environment}
    return rank_process.bind(env, set(allowed or range(16)), root), env


def test_parse_cpu_list():
    assert rank_process.parse_cpu_list("0-3,8,10-11\n") == {0, 1, 2, 3, 8, 10, 11}
    assert rank_process.parse_cpu_list("\n") == set()


def test_ranks_are_spread_over_the_nodes(machine):
    root = machine(["0-7", "8-15"])
    assert [min(bind(root, rank, 4)[0]) for rank in range(4)] == [0, 0, 8, 8]
    assert bind(root, 3, 4)[1]["TF_NUM_INTRAOP_THREADS"] == "4"
    # One rank keeps the whole machine, and so does each where Linux tells of no nodes.
    assert bind(root, 0, 1)[0] == set(range(16))
    # Where ranks share memory another cycle may be chosen, if the user has not.
    assert bind(root, 0, 1)[1][rank_process.CHOSEN_CYCLE] == "1"
    assert rank_process.CHOSEN_CYCLE not in bind(root, 0, 1, HOROVOD_CYCLE_TIME="0.1")[1]
    assert bind("/nowhere", 1, 2)[0] == set(range(16))


def test_a_rank_goes_to_the_node_of_its_card(machine):
    root = machine(["0-7", "8-15"], cards=[1, 1, 0, -1])
    assert [min(bind(root, rank, 3)[0]) for rank in range(3)] == [8, 8, 0]
    assert [min(bind(root, rank, 2, CUDA_VISIBLE_DEVICES="2,0")[0]) for rank in range(2)] == [0, 8]
    assert bind(root, 2, 3)[1]["OMP_NUM_THREADS"] == "8"  # Alone on its node.


def test_only_processors_that_this_process_may_use(machine):
    root = machine(["0-7", "8-15"])
    assert bind(root, 1, 2, allowed=range(4))[0] == set(range(4))
    assert bind(root, 1, 2, allowed=[6, 7, 8])[0] == {8}


def test_what_the_user_set_stays(machine):
    root = machine(["0-7"])
    env = bind(root, 0, 2, TF_NUM_INTRAOP_THREADS="3", HOROVOD_CYCLE_TIME="5", MALLOC_ARENA_MAX="1")[1]
    assert env["TF_NUM_INTRAOP_THREADS"] == "3" and env["HOROVOD_CYCLE_TIME"] == "5"
    assert "MALLOC_ARENA_MAX" not in env
    assert bind(root, 0, 2)[1]["HOROVOD_CYCLE_TIME"] == "0.1"


def output(*lines, size=2):
    job = JobOutput(size)
    for line in lines:
        job.line(line + "\n")
    return job


@pytest.mark.parametrize(
    "consequence",
    [
        "UnknownError: Horovod has been shut down. This was caused by",
        "rank 0 waits in the collective 'c' for rank 1, whose process has ended",
    ],
)
def test_the_cause_is_not_the_rank_that_was_only_left_alone(consequence):
    job = output(
        "[1]<stderr>:ValueError: no column 'x'",
        f"[0]<stderr>:{consequence}",
        "Process 0 exit with status code 1.",
        "Process 1 exit with status code 1.",
    )
    assert job.cause() == Exit(1, 1)
    assert "ValueError: no column 'x'" in job.summary() and "The other ranks were stopped after it: 0." in job.summary()


def test_a_consequence_far_in_front_of_the_last_line():
    stack = [f"[0]<stderr>:  File 'train.py', line {i}" for i in range(60)]
    job = output("[0]<stderr>:Horovod has been shut down.", *stack, "Process 0 exit with status code 1.",
                 "[1]<stderr>:RanksDiffer", "Process 1 exit with status code 1.")  # fmt: skip
    assert job.cause() == Exit(1, 1)
    assert len(output(*stack, "Process 0 exit with status code 1.").summary().splitlines()) == 27


def test_ranks_that_the_launcher_stopped_are_no_cause():
    job = output("Process 0 exit with status code 143.", "Process 1 exit with status code 139.")
    assert job.cause() == Exit(1, 139) and "signal 11 (SIGSEGV)" in job.summary()


def test_a_rank_that_left_without_an_error_is_named():
    job = output("[0]<stderr>:Horovod has been shut down", "Process 0 exit with status code 1.")
    assert "rank(s) 1 had ended before, with exit code 0" in job.summary()


def test_lines_that_the_launcher_ran_together():
    job = output("Process 1 exit with status code 3.[0]<stderr>:late", "[0]<stdout>:Process 0 exit with status code 9.")
    assert job.exits == [Exit(1, 3)]


def test_the_launchers_own_traceback_is_held_back():
    job = JobOutput(1)
    assert job.line("[0]<stderr>:Traceback (most recent call last)\n")
    assert not job.line("Traceback (most recent call last):\n") and not job.line("RuntimeError: x\n")
    assert job.line("[0]<stderr>:still shown\n")
    assert job.launchers_error == ["Traceback (most recent call last):\n", "RuntimeError: x\n"]


def start(script, *arguments):
    command = [sys.executable, "-m", "tf_booster.run", "-np", "2", str(script), *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "MALLOC_ARENA_MAX": "1"}
    )


def test_a_rank_that_raises_ends_the_job(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys, time\n"
        "rank = os.environ['HOROVOD_RANK']\n"
        "print('hello', sys.argv[1:], os.environ.get('MALLOC_ARENA_MAX'), flush=True)\n"
        f"said = {str(tmp_path / 'said')!r}\n"
        "if rank == '0': open(said, 'w').close()\n"
        "while not os.path.exists(said): time.sleep(0.01)\n"
        "if rank == '1':\n"
        "    time.sleep(0.5)  # The launcher has rank 0's line by then.\n"
        "    raise KeyError('no such column')\n"
        "time.sleep(600)\n"
    )
    job = start(script, "--flag", "a b")
    out, err = job.communicate(timeout=120)
    assert job.returncode == 1
    assert "[0]<stdout>:hello ['--flag', 'a b'] None" in out and "[1]<stdout>:hello" in out
    end = err[err.index("tf_booster.run:") :]
    assert "rank 1 of 2 ended with exit code 1" in end and "KeyError: 'no such column'" in end
    assert "horovod/runner" not in err


def test_the_launchers_threads_find_all_of_multiprocessing_loaded(tmp_path):
    """Two that load a module at once may fail in Python 3.9."""
    runner = tmp_path / "horovod" / "runner"
    runner.mkdir(parents=True)
    (tmp_path / "horovod" / "__init__.py").write_text("")
    (runner / "__init__.py").write_text("")
    (runner / "launch.py").write_text(
        "import multiprocessing, sys, threading\n"
        "def one_rank(loaded):\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    event, pipe = context.Event(), context.Pipe(duplex=False)\n"
        "    context.Process(target=print, args=(event, *pipe)).start()\n"
        "    late = {m for m in set(sys.modules) - loaded if m.startswith('multiprocessing')}\n"
        "    assert not late, late\n"
        "    print('nothing loaded late', flush=True)\n"
        "def run_commandline():\n"
        "    threading.Thread(target=one_rank, args=(set(sys.modules),)).start()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", run.LAUNCHER], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert "nothing loaded late" in done.stdout, done.stderr


def test_ctrl_c_ends_all_ranks(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, time\n"
        f"open(os.path.join({str(tmp_path)!r}, 'pid' + os.environ['HOROVOD_RANK']), 'w').write(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    job = start(script)
    files = [tmp_path / "pid0", tmp_path / "pid1"]
    while not all(file.exists() and file.read_text() for file in files):
        assert job.poll() is None
        time.sleep(0.1)
    job.send_signal(signal.SIGINT)
    _, err = job.communicate(timeout=120)
    assert job.returncode == 128 + signal.SIGINT and "all ranks were ended" in err
    for file in files:
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)


@pytest.mark.parametrize("number", ["0", "-2"])
def test_less_than_one_rank(number, capsys):
    assert run.main(["-np", number, "train.py"]) == 2
    assert f"{number} ranks; wanted -np 1 or more" in capsys.readouterr().err
