import sys

import pytest

from tf_booster import log
from tf_booster.options import Options
from tf_booster.parallel import ranks


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    for name in (*ranks._SIZES, *ranks._RANKS, "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ranks, "_initialised_here", False)
    monkeypatch.setattr(log, "_said", set())
    ranks.stop()
    yield
    ranks.stop()


@pytest.fixture
def said(monkeypatch):
    lines = []
    monkeypatch.setattr(log, "warning", lines.append)
    return lines


class FakeHorovod:
    """Rank 1 of 4, on a machine that has two of them."""

    def __init__(self):
        self.inits = 0

    def init(self, comm=None, process_sets=None):
        self.inits += 1

    def is_initialized(self):
        return self.inits > 0

    def rank(self):
        return 1

    def size(self):
        return 4

    def local_rank(self):
        return 1

    def local_size(self):
        return 2


@pytest.fixture
def fake(monkeypatch):
    hvd = FakeHorovod()
    monkeypatch.setattr(ranks, "horovod", lambda: hvd)
    monkeypatch.setitem(sys.modules, "horovod.tensorflow.mpi_ops", hvd)
    return hvd


@pytest.fixture
def without_horovod(monkeypatch):
    def missing():
        raise ImportError("Extension horovod.tensorflow has not been built.\nmore")

    monkeypatch.setattr(ranks, "horovod", missing)


def test_one_process_needs_no_horovod(without_horovod, said):
    assert ranks.start(Options()) == ranks.Ranks(0, 1, 0, 1) == ranks.current()
    assert said == [] and ranks.shared_seed() is None


@pytest.mark.parametrize("size_name, rank_name", list(zip(ranks._SIZES, ranks._RANKS)))
def test_what_a_launcher_started_is_initialised(monkeypatch, fake, size_name, rank_name):
    monkeypatch.setenv(size_name, "4")
    monkeypatch.setenv(rank_name, "1")
    assert ranks.start(Options()) == ranks.Ranks(1, 4, 1, 2)
    assert fake.inits == 1 and ranks.left_alone() == []
    assert ranks.start(Options(seed=3)).size == 4  # Enabled again: it is still not the program's own Horovod.
    assert ranks.left_alone() == [] and ranks.shared_seed() == 3


def test_process_sets_after_it_was_initialised_are_refused(monkeypatch, fake):
    monkeypatch.setenv("HOROVOD_SIZE", "4")
    ranks.start(Options())
    fake.init()
    with pytest.raises(ValueError, match=r"process_sets=\['evens'\].*after hvd.init"):
        fake.init(process_sets=["evens"])


def test_switched_off_nothing_is_initialised(monkeypatch, fake, said):
    monkeypatch.setenv("HOROVOD_SIZE", "4")
    assert ranks.start(Options(horovod=False)) == ranks.Ranks()
    assert fake.inits == 0 and "each of the 4 processes" in said[0]


def test_a_horovod_that_the_program_initialised_is_used_and_its_cards_are_left_alone(monkeypatch, fake):
    monkeypatch.setattr(ranks, "_bind_card", lambda local_rank: pytest.fail("bound"))
    fake.init()
    assert ranks.start(Options()).size == 4
    assert fake.inits == 1 and "hvd.init()" in ranks.left_alone()[0]


def test_asked_for_in_one_process_without_horovod_a_line_says_how_to_build_it(without_horovod, said):
    assert ranks.start(Options(horovod=True)) == ranks.Ranks()
    assert len(said) == 1 and ranks.BUILD_COMMAND in said[0] and "one process goes on" in said[0]
    assert "Extension horovod.tensorflow has not been built." in said[0] and "more" not in said[0]


def test_of_several_processes_without_horovod_rank_0_goes_on_alone(monkeypatch, without_horovod, said):
    monkeypatch.setenv("HOROVOD_SIZE", "2")
    monkeypatch.setenv("HOROVOD_RANK", "0")
    assert ranks.start(Options()) == ranks.Ranks()
    monkeypatch.setenv("HOROVOD_RANK", "1")
    with pytest.raises(SystemExit) as ended:
        ranks.start(Options())
    assert ended.value.code == 0 and len(said) == 2 and all(ranks.BUILD_COMMAND in line for line in said)


def test_each_rank_sees_its_own_card(monkeypatch, fake, said):
    monkeypatch.setenv("HOROVOD_SIZE", "4")
    monkeypatch.setenv("HOROVOD_LOCAL_RANK", "1")
    for shown, wanted in [("4,6,7", "6"), ("5", "5"), ("", ""), ("GPU-a,GPU-b", "GPU-b")]:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
        monkeypatch.setattr(ranks, "_initialised_here", False)
        fake.inits = 0
        ranks.start(Options())
        assert ranks.os.environ["CUDA_VISIBLE_DEVICES"] == wanted
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("HOROVOD_LOCAL_RANK", "2")
    fake.inits = 0
    ranks.start(Options())
    assert "local rank 2 has no card" in said[-1]


def test_the_seed_is_that_of_the_job(monkeypatch, fake):
    monkeypatch.setenv("HOROVOD_SIZE", "4")
    seeds = []
    for port, rank in [("1000", "0"), ("1000", "1"), ("1001", "0")]:
        monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", port)
        monkeypatch.setenv("HOROVOD_RANK", rank)
        ranks.start(Options())
        seeds.append(ranks.shared_seed())
    assert seeds[0] == seeds[1] != seeds[2] and all(0 <= seed < 2**31 for seed in seeds)
