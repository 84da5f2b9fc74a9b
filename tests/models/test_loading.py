import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn

from initscope.errors import InputError
from initscope.models import load_model

SOURCE = """
from __future__ import annotations
from dataclasses import dataclass
import torch
from torch import nn
import sibling

@dataclass
class Settings:
    width: int = 5

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, Settings().width), nn.ReLU())

def make():
    return nn.Linear(2, sibling.WIDTH)

def lazy():
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.LazyLinear(2))

def broken():
    raise RuntimeError("no luck")

def needs(argument):
    return nn.Linear(2, 2)

def number():
    return 7

ready = nn.Tanh()
constant = 3

class space:
    inner = staticmethod(make)
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    (tmp_path / "mynets.py").write_text(textwrap.dedent(SOURCE))
    (tmp_path / "sibling.py").write_text("WIDTH = 4\n")
    (tmp_path / "bad.py").write_text("1 / 0\n")
    (tmp_path / "script.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "wants.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("mynets", "sibling", "bad", "wants", "script") or name.startswith("_initscope_model"):
            del sys.modules[name]


@pytest.fixture(params=["mynets", "mynets.py", "full path"])
def where(request, code):
    return str(code / "mynets.py") if request.param == "full path" else request.param


def test_functions_classes_objects_and_attributes_of_attributes(where):
    path = list(sys.path)
    assert load_model(f"{where}:Net")[0].out_features == 5
    assert load_model(f"{where}:make").out_features == 4
    assert isinstance(load_model(f"{where}:ready"), nn.Tanh)
    assert load_model(f"{where}:space.inner").out_features == 4
    assert sys.path == path


def test_a_file_does_not_replace_a_module_of_its_name(code):
    (code / "json.py").write_text("import torch\nmake = torch.nn.Identity\n")
    import json

    assert isinstance(load_model("json.py:make"), nn.Identity)
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("nothing", "no factory 'nothing'; it defines Settings, Net, make, lazy, broken, needs, number, space"),
        ("broken", r"broken\(\) fails: RuntimeError: no luck"),
        ("needs", r"needs\(\) fails: TypeError: .*argument.*; a factory is called without arguments"),
        ("number", r"number\(\) returns a value of type int; it must return a torch.nn.Module"),
        ("constant", "is of type int; give a function, a class or a torch.nn.Module"),
    ],
)
def test_factories_that_do_not_work(where, attribute, message):
    with pytest.raises(InputError, match=message):
        load_model(f"{where}:{attribute}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("no_such_package.nets:make", "module 'no_such_package.nets' was not found; install its package or start"),
        ("torch.nothing:make", r"module 'torch.nothing' was not found"),
        ("wants:make", "module 'wants' needs 'a_module_that_is_not_there', which is not installed"),
        ("bad:make", "module 'bad' fails on import: ZeroDivisionError"),
        ("bad.py:make", r"bad.py fails on import: ZeroDivisionError"),
        ("script.py:make", r"script.py fails on import: SystemExit: 3"),
        ("script:make", "module 'script' fails on import: SystemExit: 3"),
        ("none.py:make", r"none.py is not a file"),
        ("mynets.py", "no factory named; it defines Settings, Net"),
        ("convnet", "unknown layer 'convnet'"),
    ],
)
def test_models_that_are_not_there(code, spec, message):
    with pytest.raises(InputError, match=message):
        load_model(spec, input_shape=(3, 8, 8))


def test_a_failed_import_leaves_no_module_behind(code):
    before = set(sys.modules)
    with pytest.raises(InputError):
        load_model("bad.py:make")
    assert set(sys.modules) == before


def test_lazy_modules_get_their_shapes(code):
    with pytest.raises(InputError, match="has lazy modules, which need the shape of the input"):
        load_model("mynets:lazy")
    model = load_model("mynets:lazy", input_shape=(3, 8, 8))
    assert model[0].in_channels == 3
    assert model[3].in_features == 4 * 6 * 6
    assert model.training
    assert model[1].num_batches_tracked == 0
    with pytest.raises(InputError, match=r"mynets:lazy refuses an input of shape \(3, 2, 2\)"):
        load_model("mynets:lazy", input_shape=(3, 2, 2))


@pytest.mark.parametrize("spec", ["mynets:make", "conv3x3x4-relu"])
def test_the_seed_decides_and_the_global_state_stays(code, spec):
    state = torch.random.get_rng_state()
    first, again, other = (load_model(spec, input_shape=(1, 8, 8), seed=seed) for seed in (1, 1, 2))
    assert torch.equal(state, torch.random.get_rng_state())
    weight, same, different = (next(model.parameters()) for model in (first, again, other))
    assert torch.equal(weight, same)
    assert not torch.equal(weight, different)


def test_architectures_with_a_padding_are_not_taken_for_modules():
    assert load_model("conv3x3x4:zeros", input_shape=(1, 8, 8)).conv1.padding_mode == "zeros"
    assert load_model("leaky_relu:0.3", input_shape=(4,)).leaky_relu1.negative_slope == 0.3


@pytest.fixture
def state(tmp_path):
    """State dict of another draw of the model, saved in every form that is understood."""
    model = load_model("conv3x3x4-bn-relu-dense5", input_shape=(2, 6, 6), seed=9)
    state = model.state_dict()
    torch.save(state, tmp_path / "plain.pt")
    torch.save({"epoch": 3, "state_dict": state}, tmp_path / "nested.pth")
    torch.save({"model": state}, tmp_path / "model.pt")
    torch.save({f"module.{name}": value for name, value in state.items()}, tmp_path / "parallel.pt")
    np.savez(tmp_path / "arrays.npz", **{name: value.numpy() for name, value in state.items()})
    return state


@pytest.mark.parametrize("file", ["plain.pt", "nested.pth", "model.pt", "parallel.pt", "arrays.npz"])
def test_weights(tmp_path, state, file):
    model = load_model("conv3x3x4-bn-relu-dense5", input_shape=(2, 6, 6), weights=tmp_path / file)
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name])


def test_half_precision_weights_take_the_type_of_the_model(tmp_path):
    np.savez(tmp_path / "half.npz", **{"dense1.weight": np.full((2, 3), 0.5, np.float16)})
    model = load_model("dense2", input_shape=(3,), weights=tmp_path / "half.npz")
    assert model.dense1.weight.dtype == torch.float32
    assert (model.dense1.weight == 0.5).all()


def test_weights_that_do_not_fit(tmp_path, state):
    with pytest.raises(
        InputError,
        match=r"plain.pt do not fit the model: 1 missing in the file: dense2.weight; "
        r"5 not in the model: bn1.weight, bn1.bias, bn1.running_mean, …; "
        r"1 of another shape: dense1.weight \(5, 144\) in the file, \(7, 144\) in the model$",
    ):
        load_model("conv3x3x4-relu-dense7-dense3", input_shape=(2, 6, 6), weights=tmp_path / "plain.pt")


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("a file was executed",))


def test_files_that_are_no_weights(tmp_path):
    def load(file):
        return load_model("dense2", input_shape=(3,), weights=tmp_path / file)

    with pytest.raises(InputError, match=r"none.pt is not a file"):
        load("none.pt")
    torch.save(Evil(), tmp_path / "evil.pt")
    with pytest.raises(
        InputError, match=r"evil.pt holds Python objects, which cannot be read without .*torch.save\(model.state_dict"
    ):
        load("evil.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(InputError, match=r"list.pt holds a value of type list, not a state dict of tensors"):
        load("list.pt")
    torch.save({"lr": 0.1}, tmp_path / "dict.pt")
    with pytest.raises(InputError, match=r"dict.pt holds a value of type dict, not a state dict of tensors"):
        load("dict.pt")
