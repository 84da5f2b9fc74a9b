"""A real Dask cluster of two worker processes: workers, scheduler and driver are killed, and nothing is lost."""

import os
import signal
import threading
from contextlib import contextmanager

import pytest
import sweep_jobs
from dask_cluster import PATIENCE, Cluster, run, wait_until

from initscope.distributed import engine
from initscope.distributed.engine import collect
from initscope.distributed.folder import opened
from initscope.distributed.local import outcome_of
from initscope.errors import InputError

pytest.importorskip("pyarrow")
pytest.importorskip("dask.distributed")

from initscope.distributed.cluster import connect, on_cluster

COUNT = 40
JOBS = sweep_jobs.jobs(COUNT, seconds=0.05)
DRIVER = """
import sys
import sweep_jobs
from initscope.distributed.cluster import on_cluster
from initscope.distributed.engine import collect
from initscope.distributed.folder import opened
common, order = sweep_jobs.shared({count})
with opened(sys.argv[1]) as folder:
    collect(on_cluster(sweep_jobs.square, sweep_jobs.jobs({count}, seconds=0.05), sys.argv[2]), folder, common, order)
"""


@pytest.fixture
def cluster():
    found = Cluster()
    found.start()
    yield found
    found.kill()


@contextmanager
def meanwhile(action):
    thread = threading.Thread(target=action)
    thread.start()
    yield
    thread.join()


def finished(out):
    return len([*out.glob("tasks/[!.]*.parquet")])


@pytest.mark.filterwarnings("ignore")
def test_killed_workers_scheduler_and_driver(cluster, tmp_path):
    """The driver is killed after 4 results, then a worker after 4 more, then the whole cluster, which starts again.

    In the end the folder holds, byte for byte, what one process computes undisturbed.
    """
    common, order = sweep_jobs.shared(COUNT)
    with opened(tmp_path / "undisturbed") as folder:
        collect((outcome_of(sweep_jobs.square, job) for job in JOBS), folder, common, order)
    out = tmp_path / "out"
    driver = run("-c", DRIVER.format(count=COUNT), str(out), cluster.address)
    wait_until(lambda: finished(out) >= 4)
    driver.kill()
    driver.wait()

    def disturb():
        begun = finished(out)
        wait_until(lambda: finished(out) >= begun + 4)
        os.kill(cluster.workers[0].pid, signal.SIGKILL)
        wait_until(lambda: finished(out) >= begun + 10)
        cluster.kill()
        cluster.start()

    with opened(out) as folder:
        left = [job for job in JOBS if job[0] not in folder.status()]
        assert 10 < len(left) <= COUNT - 4
        with meanwhile(disturb):
            collect(on_cluster(sweep_jobs.square, left, cluster.address), folder, common, order)
    assert (out / "results.parquet").read_bytes() == (tmp_path / "undisturbed" / "results.parquet").read_bytes()


GRID = """
[grid]
architecture = ["dense{width}-relu-dense10"]
width = [4, 8, 12, 16]
data = ["digits"]
seed = [0, 1, 2, 3, 4]
[run]
pairs = 10
draws = 2
limit = 100
"""


@pytest.mark.filterwarnings("ignore")
def test_the_command_survives_a_killed_worker_and_driver(cluster, tmp_path, monkeypatch):
    """``initscope sweep --dask``: a worker is killed, then the command; started again it ends with the bytes of this
    process, which nobody disturbed."""
    file, out, alone = tmp_path / "sweep.toml", tmp_path / "out", tmp_path / "alone"
    file.write_text(GRID)
    command = ("-m", "initscope", "sweep", str(file), "--out")
    driver = run(*command, str(out), "--dask", cluster.address)
    wait_until(lambda: finished(out) >= 3)
    os.kill(cluster.workers[0].pid, signal.SIGKILL)
    wait_until(lambda: finished(out) >= 8)
    driver.kill()
    driver.wait()
    assert finished(out) < 40
    assert run(*command, str(out), "--dask", cluster.address).wait(PATIENCE) == 0
    monkeypatch.setattr(engine, "in_processes", lambda run, jobs, count, limit: (outcome_of(run, job) for job in jobs))
    engine.run_sweep(file, alone)
    assert (out / "results.parquet").read_bytes() == (alone / "results.parquet").read_bytes()


def test_no_scheduler_is_told():
    with pytest.raises(InputError, match="no scheduler answers there"):
        connect("tcp://127.0.0.1:1", 0.2)


@pytest.mark.parametrize("address", ["nonsense", "nonsense://x", "tcp://"])
def test_what_is_no_address_makes_no_client(monkeypatch, address):
    """One that is half made prints a traceback, 20 seconds later."""
    monkeypatch.setattr("distributed.Client", lambda *arguments, **options: pytest.fail("a client was made"))
    with pytest.raises(InputError, match=r"; give an address such as tcp://host:8786$"):
        connect(address, 0.2)
