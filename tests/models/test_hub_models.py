"""``hf:`` and ``timm:`` models: built without weights of others, and nothing fetched."""

import json
import socket
import sys
import types

import pytest
import torch

import initscope
from initscope.errors import InputError, MissingDependencyError
from initscope.models import load_model

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_the_missing_library_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingDependencyError, match="transformers is not installed"):
        load_model("hf:bert")


SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 50}


def test_a_configuration_file_or_folder(tmp_path, no_network):
    transformers = pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", **SMALL}))
    for spec in (f"hf:{tmp_path}", f"hf:{tmp_path / 'config.json'}"):
        assert load_model(spec).config.hidden_size == 16
    named = {"model_type": "bert", "architectures": ["BertForSequenceClassification"], **SMALL}
    (tmp_path / "config.json").write_text(json.dumps(named))
    assert isinstance(load_model(f"hf:{tmp_path}"), transformers.BertForSequenceClassification)


def test_a_class_or_a_kind(no_network, monkeypatch):
    transformers = pytest.importorskip("transformers")
    from initscope.models.hub_models import hf_config

    assert type(hf_config("LlamaConfig")) is type(hf_config("llama")) is transformers.LlamaConfig
    with pytest.raises(InputError, match="did you mean llama"):
        hf_config("llamma")


def test_inspect_a_model_of_transformers(tmp_path, monkeypatch, capsys, no_network):
    pytest.importorskip("transformers")
    import numpy as np

    from initscope.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", **SMALL}))
    np.save("words.npy", np.random.default_rng(0).integers(0, 50, (24, 6)))
    main(
        [
            "inspect",
            "hf:config.json",
            "--data",
            "words.npy",
            "--pairs",
            "8",
            "--no-alternatives",
            "--no-prediction",
            "--format",
            "json",
        ]
    )
    assert json.loads(capsys.readouterr().out)["model"] == "hf:config.json"


def test_timm(no_network):
    pytest.importorskip("torchvision", reason="timm imports torchvision, which is not here")
    pytest.importorskip("timm")
    model = load_model("timm:resnet18", input_shape=(3, 32, 32))
    assert sum(parameter.numel() for parameter in model.parameters()) > 10**7
    with pytest.raises(InputError, match="did you mean resnet18"):
        load_model("timm:resnet81")


def test_names_of_timm_with_a_library_in_its_place(monkeypatch):
    """timm is not installed here: a module with its two functions shows what is asked of it, in Python and by name."""
    created = []

    def create_model(name, pretrained):
        created.append((name, pretrained))
        return torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)
        )

    stand_in = types.SimpleNamespace(create_model=create_model, list_models=lambda: ["resnet18"])
    monkeypatch.setitem(sys.modules, "timm", stand_in)
    quick = {"pairs": 8, "prediction": False, "alternatives": False, "trial": False}
    report = initscope.inspect("timm:resnet18", "digits", **quick)
    assert report.layers == 2
    assert created == [("resnet18", False)]
    with pytest.raises(InputError, match="did you mean resnet18"):
        load_model("timm:resnet81")
    with pytest.raises(InputError, match=r"load it first: initscope.models.load_model\('timm:resnet18'\)"):
        initscope.predict("timm:resnet18", "digits")
