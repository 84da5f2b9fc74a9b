"""Libraries of the extras: what misses one says so in one line, which names the extra that brings it."""

from __future__ import annotations

import ast
import json
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

import initscope
from initscope import integrations
from initscope._utils.libraries import LIBRARIES
from initscope.cli import main
from initscope.distributed import open_blocks
from initscope.errors import MissingDependencyError
from initscope.invert.images import ssim
from initscope.invert.priors import TotalVariation, Wavelets
from initscope.invert.sensing import make_sensing
from initscope.models import load_model

ROOT = Path(__file__).parents[2]


@pytest.fixture
def without(monkeypatch):
    """A function that makes as if packages were not installed."""

    def hide(*packages):
        for package in packages:
            monkeypatch.setitem(sys.modules, package, None)

    return hide


def test_every_extra_brings_what_it_is_said_to_bring():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for name, extra in LIBRARIES.values():
        wanted = name.partition(".")[2] or name
        assert extra is None or any(wanted in line for line in extras[extra]), name


def test_they_are_loaded_in_one_place():
    """Bar numba, which is never needed, and what is named for types alone."""
    found = []
    for file in (ROOT / "src").rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        typing = [part for node in tree.body if isinstance(node, ast.If) for part in ast.walk(node)]
        for node in ast.walk(tree):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [(file.name, name) for name in names if name.partition(".")[0] in LIBRARIES and node not in typing]
    assert found == []


GRID = (
    '[grid]\narchitecture = ["dense4-relu"]\nquantity = ["predict"]\ndata = ["digits"]\nseed = [0]\n[run]\npairs = 2\n'
)
COMMANDS = {
    "sweep grid.toml --out results --workers 1": ("pyarrow", "data"),
    "mean-width --data rows.parquet --rows 10": ("pyarrow", "data"),
    "kernel dense4-relu --data rows.parquet --rows 10 --out kernel.npy": ("pyarrow", "data"),
    "mean-width --data rows.npy --rows 10 --dask tcp://127.0.0.1:1": ("distributed", "scale"),
    "kernel dense4-relu --data rows.npy --rows 10 --out kernel.npy --dask tcp://127.0.0.1:1": ("distributed", "scale"),
    "predict hf:gpt2 --data text": ("transformers", "integrations"),
    "coordinates config.json --widths 1,2 --measured": ("transformers", "integrations"),
    "invert conv3x3x4-relu --layer relu1 --size 16 --iterations 2": ("skimage", "invert"),
    "discriminate --data digits --limit 100 --ratios 2 --reconstruct 1 --epochs 0": ("pywt", "invert"),
}


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_says_which_extra_it_needs(line, without, tmp_path, monkeypatch, capsys):
    package, extra = COMMANDS[line]
    monkeypatch.chdir(tmp_path)
    Path("grid.toml").write_text(GRID)
    Path("rows.parquet").touch()
    np.save("rows.npy", np.ones((20, 4), dtype=np.float32))
    Path("config.json").write_text(
        json.dumps({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "vocab_size": 64})
    )
    without(package)
    with pytest.raises(SystemExit) as left:
        main(line.split())
    messages = [message for message in capsys.readouterr().err.splitlines() if message.startswith("initscope: ")]
    assert left.value.code == 2
    name, _ = LIBRARIES[package]
    assert messages == [f"initscope: {name} is not installed; install it with: pip install 'initscope[{extra}]'"]


PICTURE = np.full((1, 8, 8), 0.5, dtype=np.float32)


def reconstruct():
    tomography = make_sensing("tomography", 8, 32, arc=90.0, seed=0)
    tomography.reconstructions(tomography.measure(torch.from_numpy(PICTURE)[None])[0])


def rows_as_dask():
    np.save("rows.npy", np.ones((4, 2), dtype=np.float32))
    open_blocks("rows.npy").dask_array()


CALLS = {
    "to_pandas": ("pandas", lambda: initscope.plan.bits(eps=0.1, delta=0.1).to_pandas()),
    "to_arrow": ("pyarrow", lambda: initscope.plan.bits(eps=0.1, delta=0.1).to_arrow()),
    "dask_array": ("dask", rows_as_dask),
    "Wavelets": ("pywt", lambda: Wavelets(4).project(torch.from_numpy(PICTURE))),
    "TotalVariation": ("skimage", lambda: TotalVariation().project(torch.from_numpy(PICTURE))),
    "reconstructions": ("skimage", reconstruct),
    "ssim": ("skimage", lambda: ssim(PICTURE, PICTURE)),
    "hf": ("transformers", lambda: load_model("hf:gpt2")),
    "timm": ("timm", lambda: load_model("timm:resnet18")),
    "hugging_face_callback": ("transformers", lambda: integrations.hugging_face_callback()),
    "lightning_callback": ("lightning", lambda: integrations.lightning_callback()),
    "tensorboard_logger": ("tensorboard", lambda: integrations.tensorboard_logger("runs")),
    "wandb_logger": ("wandb", lambda: integrations.wandb_logger()),
}
ELSEWHERE = {"lightning": "pytorch_lightning", "tensorboard": "torch.utils.tensorboard"}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_says_what_it_needs(name, without, tmp_path, monkeypatch):
    package, call = CALLS[name]
    monkeypatch.chdir(tmp_path)
    without(package, ELSEWHERE.get(package, package))
    with pytest.raises(MissingDependencyError) as error:
        call()
    library_name, extra = LIBRARIES[package]
    wanted = f"'initscope[{extra}]'" if extra else library_name
    assert str(error.value) == f"{library_name} is not installed; install it with: pip install {wanted}"
