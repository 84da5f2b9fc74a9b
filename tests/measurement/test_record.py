"""`record`: observers of a user's own see every step, and which modules are one step is decided below both siblings."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import initscope
from initscope.errors import InputError
from initscope.graph import Batch, Observer, bind, run, stays_whole, trace
from initscope.initializers import He
from initscope.initializers._redrawn import redrawn
from initscope.measurement import record
from initscope.propagate import InputValues


class ClassMeans(Observer):
    """Sums of the outputs of each class, as a measure of separation would need them."""

    def __init__(self, classes):
        self.classes = classes
        self.sums, self.outputs, self.labels = {}, [], None

    def begin(self, batch):
        self.labels = F.one_hot(batch.targets, self.classes).float()

    def see(self, step, values):
        self.sums[step] = self.sums.get(step, 0) + self.labels.T @ values.flatten(1)

    def end(self, output):
        self.outputs.append(output)


@pytest.fixture
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(6, 3))


def test_an_observer_sees_every_step_with_the_targets_and_leaves_no_trace(net):
    x, labels = torch.randn(150, 4), torch.arange(150) % 3
    before = {name: value.clone() for name, value in net.state_dict().items()}
    observer = ClassMeans(3)
    seen = record(net, (x, labels), [observer], mode="eval")
    assert [row.layer for row in seen.rows] == ["input", "0", "1", "2", "3", "4"]
    assert seen.samples == 150
    assert seen.mode == "eval"
    assert net.training
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    net.eval()
    with torch.no_grad():
        for step, part in zip(seen.nodes, (net[:0], net[:1], net[:2], net[:3], net[:4], net), strict=True):
            expected = F.one_hot(labels).float().T @ part(x)
            torch.testing.assert_close(observer.sums[step], expected, rtol=1e-4, atol=1e-4)  # before the in-place ReLU
        torch.testing.assert_close(torch.cat(observer.outputs), net(x))
    assert seen.to_dict()["samples"] == 150


def test_bad_data_and_failing_models_are_told(net):
    with pytest.raises(InputError, match="fails on inputs of shape"):
        record(net, torch.randn(5, 7), [Observer()])
    with pytest.raises(InputError, match="no samples"):
        record(net, [], [Observer()])


def test_one_recording_serves_draws_and_samples(net):
    """What prediction by whole networks needs: the same run, draw by draw, with an observer of its own."""
    x = torch.randn(8, 4)

    class Squares(Observer):
        def __init__(self):
            self.found = {}

        def see(self, step, values):
            self.found.setdefault(step, []).append(float(values.square().sum()))

    observer = Squares()
    inputs = bind(net, x)
    for traced in redrawn(net, He(), 3, inputs, seed=0):
        run(traced, replace(Batch(inputs), sides=None), [observer])
    assert {len(values) for values in observer.found.values()} == {3}
    assert len({values[0] for values in observer.found.values()}) > 1
    assert len(set(list(observer.found.values())[1])) == 3


class Own(nn.Linear):
    """A subclass that keeps torch's forward."""


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Scaled(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 0.5


def test_what_is_one_step():
    assert stays_whole(Own(2, 2))
    assert not stays_whole(Doubled(2, 2))
    assert not stays_whole(nn.Sequential(nn.ReLU()))
    x, y = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(Own(4, 20), Scaled())
    for rows in (
        [node.name for node in trace(model, x).nodes],
        [row.layer for row in initscope.predict(model, x, y).rows],
    ):
        assert list(rows) == ["input", "0", "1.relu", "1.mul"]

    class Known(Scaled):
        pass

    @initscope.rule(Known)
    def known(module, state, context):
        return state.run(module) if isinstance(state, InputValues) else state.scaled(0.5)

    model = nn.Sequential(Own(4, 20), Known())
    predicted, measured = initscope.predict(model, x, y), initscope.measure(model, x, y)
    assert [row.layer for row in predicted.rows] == [row.layer for row in measured.rows] == ["input", "0", "1"]


ALONE = """
import sys, torch, initscope
from torch import nn
class Own(nn.Linear):
    pass
x, y = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
measured = initscope.measure(nn.Sequential(Own(4, 20), nn.ReLU()), x, y)
print([row.layer for row in measured.rows], any(name.startswith("initscope.propagate") for name in sys.modules))
"""


def test_measurement_does_not_load_prediction():
    out = subprocess.run([sys.executable, "-c", ALONE], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "['input', '0', '1'] False"


LOADED = """
import sys
{first}
import torch
from torch import nn
from initscope.measurement import observe
torch.set_num_threads(1)
torch.manual_seed(0)
seen = observe(nn.Sequential(nn.Conv2d(3, 40, 3), nn.ReLU(), nn.Flatten(), nn.Linear(40 * 900, 10)),
               torch.randn(20, 3, 32, 32))
sys.stdout.write(seen.cosine.tobytes().hex() + seen.norm_ratio.tobytes().hex())
"""


def test_numbers_do_not_depend_on_what_is_imported():
    """To the last bit: there is one way of summing, with or without numba."""
    pytest.importorskip("numba")
    outs = [
        subprocess.run([sys.executable, "-c", LOADED.format(first=first)], check=True, capture_output=True).stdout
        for first in ("", "import numba")
    ]
    assert outs[0] == outs[1]
    assert np.isfinite(np.frombuffer(bytes.fromhex(outs[0].decode()))).all()
