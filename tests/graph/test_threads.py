"""Small work runs on one torch thread, large work on the user's; the number is put back, whatever happens."""

import threading

import pytest
import torch
from torch import nn

import initscope
from initscope.errors import InputError
from initscope.graph import running
from initscope.graph.borrowing import borrowed
from initscope.measurement import observe


class Asks(nn.Module):
    """Notes on how many threads it runs; fails in a way of one's choice."""

    def __init__(self, failure=None):
        super().__init__()
        self.layers, self.failure = nn.ModuleList(nn.Linear(6, 6) for _ in range(3)), failure

    def forward(self, x):
        if x.sum() > 1e9:  # a branch, so that the model itself is run and not a trace of it
            return x
        for layer in self.layers:
            x = torch.relu(layer(x))
            THREADS.append(torch.get_num_threads())
        if self.failure is not None:
            raise self.failure
        return x


THREADS: list[int] = []


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    THREADS.clear()
    yield
    torch.set_num_threads(before)


def data():
    return torch.rand(8, 6, generator=torch.Generator().manual_seed(0))


def test_small_runs_take_one_thread_and_put_the_number_back():
    for call in (
        lambda: observe(Asks(), data(), pairs=4),
        lambda: initscope.measure(Asks(), data()[:4], data()[4:], draws=2),
        lambda: initscope.inspect(Asks(), data(), pairs=4, alternatives=False),
    ):
        THREADS.clear()
        call()
        assert set(THREADS) == {1}
        assert torch.get_num_threads() == 3


@pytest.mark.parametrize("failure", [RuntimeError("no"), KeyboardInterrupt(), SystemExit(1)])
def test_the_number_is_put_back_after_failures_and_interrupts(failure):
    with pytest.raises((InputError, KeyboardInterrupt, SystemExit)):
        observe(Asks(failure), data(), pairs=4)
    assert torch.get_num_threads() == 3


def test_large_runs_go_on_with_all_threads(monkeypatch):
    monkeypatch.setattr(running, "LARGE", 8 * (6 + 36 + 6) + 1)  # the input, a layer and its activation
    observe(Asks(), data(), pairs=4, gradients=False)
    assert THREADS[-3:] == [1, 3, 3]
    assert torch.get_num_threads() == 3


def test_other_threads_keep_theirs():
    seen, ready, inside, done = [], threading.Event(), threading.Event(), threading.Event()

    def other():
        torch.set_num_threads(2)
        seen.append(torch.get_num_threads())  # uses torch, which so knows the thread
        ready.set()
        inside.wait(20)
        seen.append(torch.get_num_threads())
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    assert ready.wait(20)
    torch.set_num_threads(3)
    with borrowed(Asks()):
        inside.set()
        assert done.wait(20)
    thread.join()
    assert seen == [2, 2]
    assert torch.get_num_threads() == 3
