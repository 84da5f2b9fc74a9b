"""One Dask cluster that lives long and serves several drivers: no driver gets what belongs to another run.

Numbers are compared, byte for byte, with those of a run without a cluster.
"""

import os
import signal

import numpy as np
import pytest
import sweep_jobs
from dask_cluster import PATIENCE, Cluster, busy_workers, drivers_with_tasks, in_background, wait_until

from initscope.distributed import encode_blocks, kernel_in_blocks, named_model, open_blocks
from initscope.errors import InputError

pytest.importorskip("dask.distributed")

from initscope.distributed import cluster as cluster_module
from initscope.distributed.cluster import on_cluster

ROWS = 10
MODEL = """from torch import nn
from width import WIDTH

def make():
    return nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 5))
"""
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def cluster():
    running = Cluster()
    running.start()
    yield running
    running.kill()


@pytest.fixture
def folder(tmp_path):
    """Two data sets of 40 rows, and a model in a file, which takes its width from another file."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "A.npy", rng.standard_normal((40, 8)).astype(np.float32))
    np.save(tmp_path / "B.npy", (5 + 3 * rng.standard_normal((40, 8))).astype(np.float32))
    (tmp_path / "m.py").write_text(MODEL)
    (tmp_path / "width.py").write_text("WIDTH = 6\n")
    return tmp_path


def kernel(folder, data, dask=None, spec="dense6-relu*2"):
    """The bytes of the file with the kernel matrix of a data set in blocks."""
    out = folder / f"{data}-{'here' if dask is None else 'dask'}.npy"
    blocks = open_blocks(folder / f"{data}.npy", rows=ROWS)
    kernel_in_blocks(named_model(spec, None, blocks.shape, 0), blocks, out, dask=dask)
    return out.read_bytes()


def gated_jobs(gate, label, count):
    """Jobs that end when the file ``gate`` is there; names as those of blocks."""
    return [(str(start), {"label": label, "gate": str(gate)}) for start in range(count)]


def test_two_drivers_with_equal_names_of_jobs(cluster, tmp_path):
    """Both have asked before any job ends: a scheduler that takes equal names for equal tasks gives one the other's."""
    gate = tmp_path / "gate"

    def drive(label):
        jobs = gated_jobs(gate, label, 4)
        return {outcome.rows for outcome in on_cluster(sweep_jobs.labelled, jobs, cluster.address)}

    answers = [in_background(drive, label) for label in ("A", "B")]
    wait_until(lambda: cluster.ask(drivers_with_tasks) == 2)
    gate.touch()
    assert [answer.result(PATIENCE) for answer in answers] == [{"A"}, {"B"}]


def test_two_kernels_at_once(cluster, folder):
    expected = [kernel(folder, data) for data in "AB"]
    assert expected[0] != expected[1]
    answers = [in_background(kernel, folder, data, cluster.address) for data in "AB"]
    assert [answer.result(PATIENCE) for answer in answers] == expected


def test_a_hash_that_is_fitted_again_under_its_name(cluster, folder):
    from initscope.embed import SignHash, save_hasher

    codes = []
    for seed in (1, 2):
        data = np.load(folder / "A.npy")
        save_hasher(SignHash(bits=16, random_state=seed).fit(data), folder / "a.hash")
        for name, dask in (("here.npy", None), ("dask.npy", cluster.address)):
            encode_blocks(folder / "a.hash", open_blocks(folder / "A.npy", rows=ROWS), folder / name, dask=dask)
        codes.append((folder / "dask.npy").read_bytes())
        assert codes[-1] == (folder / "here.npy").read_bytes()
    assert codes[0] != codes[1]


def test_a_worker_with_another_copy_of_a_hash_or_model_refuses(folder):
    """What the worker finds under the name is not what the driver read; the second call shows that it is not kept."""
    from initscope.distributed.codes import _hasher
    from initscope.distributed.model_names import built_model
    from initscope.embed import SignHash, save_hasher

    save_hasher(SignHash(bits=16, random_state=1).fit(np.load(folder / "A.npy")), folder / "a.hash")
    model = named_model(f"{folder / 'm.py'}:make", None, (8,), 0)
    (folder / "m.py").write_text(MODEL.replace("ReLU", "Tanh"))
    for _ in range(2):
        with pytest.raises(InputError, match="holds a different hash than the driver read"):
            _hasher(str(folder / "a.hash"), "of the driver")
        with pytest.raises(InputError, match="builds another model than the driver did"):
            built_model(model)


def test_a_model_file_that_is_edited(cluster, folder):
    """The file itself, to another of the same length within a second, and a file that it imports."""
    spec, kernels = f"{folder / 'm.py'}:make", []
    for file, text in (("m.py", MODEL), ("m.py", MODEL.replace("ReLU", "Tanh")), ("width.py", "WIDTH = 7\n")):
        (folder / file).write_text(text)
        kernels.append(kernel(folder, "A", cluster.address, spec))
        assert kernels[-1] == kernel(folder, "A", None, spec)
    assert len({*kernels[:2]}) == 2  # an NNGP kernel does not depend on the width


def test_modules_of_two_folders_with_one_name(folder):
    """`width.py` of the first folder was given to the model of the second."""
    from initscope.models import load_model

    other = folder / "other"
    other.mkdir()
    (other / "m.py").write_text(MODEL)
    (other / "width.py").write_text("WIDTH = 9\n")
    models = [load_model(f"{place / 'm.py'}:make") for place in (folder, other, folder)]
    assert [model[0].out_features for model in models] == [6, 9, 6]
    (other / "width.py").unlink()
    with pytest.raises(InputError, match="width"):
        load_model(f"{other / 'm.py'}:make")


def test_data_that_are_replaced_while_a_run_goes_on(folder):
    blocks = open_blocks(folder / "A.npy", rows=ROWS)
    np.save(folder / "A.npy", np.load(folder / "B.npy"))
    with pytest.raises(InputError, match="has changed since the run began"):
        next(iter(blocks)).read()


def test_a_worker_with_other_code_is_refused(cluster, monkeypatch):
    monkeypatch.setattr(cluster_module, "code_digest", lambda: "edited")
    (outcome,) = on_cluster(sweep_jobs.square, sweep_jobs.jobs(1), cluster.address)
    assert "has different code of initscope, or other versions of numpy, scipy or torch" in outcome.error


def test_a_stopped_worker_delays_and_changes_nothing(cluster, folder):
    """SIGSTOP, as a laptop that sleeps or a node that swaps; the job of the other worker ends meanwhile."""
    gates = [folder / name for name in "AB"]
    jobs = [(str(number), {"label": "A", "gate": str(gate)}) for number, gate in enumerate(gates)]
    answer = in_background(lambda: sorted(on_cluster(sweep_jobs.labelled, jobs, cluster.address)))
    wait_until(lambda: answer.done() or cluster.ask(busy_workers) == 2)
    os.kill(cluster.workers[0].pid, signal.SIGSTOP)
    try:
        for gate in gates:
            gate.touch()
        wait_until(lambda: cluster.ask(busy_workers) == 1)
        assert not answer.done()
    finally:
        os.kill(cluster.workers[0].pid, signal.SIGCONT)
    assert [outcome.rows for outcome in answer.result(PATIENCE)] == ["A", "A"]


def test_a_killed_worker_costs_nothing(cluster, folder):
    gate = folder / "gate"
    jobs = gated_jobs(gate, "A", 6)
    answer = in_background(lambda: sorted(on_cluster(sweep_jobs.labelled, jobs, cluster.address)))
    wait_until(lambda: answer.done() or cluster.ask(busy_workers) == 2)
    cluster.workers[0].kill()
    cluster.workers[0].wait()
    gate.touch()
    assert [outcome.rows for outcome in answer.result(PATIENCE)] == ["A"] * 6
    assert kernel(folder, "A", cluster.address) == kernel(folder, "A")
    cluster.workers[0] = cluster.worker()


def test_a_killed_scheduler_is_one_line_and_a_rerun_completes(cluster, folder, monkeypatch):
    jobs = gated_jobs(folder / "gate", "A", 4)
    answer = in_background(lambda: list(on_cluster(sweep_jobs.labelled, jobs, cluster.address)))
    wait_until(lambda: answer.done() or cluster.ask(drivers_with_tasks) == 1)
    monkeypatch.setattr(cluster_module, "_PATIENCE", 0.5)  # not before: connecting may take longer
    monkeypatch.setattr(cluster_module, "_CONNECT", 0.5)
    cluster.kill()
    with pytest.raises(InputError, match="the scheduler stopped answering and did not return") as refused:
        answer.result(PATIENCE)
    assert "\n" not in str(refused.value)
    cluster.start()
    monkeypatch.undo()
    assert kernel(folder, "A", cluster.address) == kernel(folder, "A")


def test_a_scheduler_that_returns_completes_the_run(cluster, folder):
    """The driver that waits for the scheduler submits again what was lost: the jobs whose results it lacks."""
    gate = folder / "gate"
    jobs = gated_jobs(gate, "A", 4)
    answer = in_background(lambda: list(on_cluster(sweep_jobs.labelled, jobs, cluster.address)))
    wait_until(lambda: answer.done() or cluster.ask(drivers_with_tasks) == 1)
    cluster.kill()
    cluster.start()
    gate.touch()
    outcomes = answer.result(PATIENCE)
    assert sorted((outcome.job, outcome.rows) for outcome in outcomes) == [(name, "A") for name, _ in jobs]
