"""Models of a third party, unmodified and randomly initialised; skipped where the package is not installed."""

import numpy as np
import pytest
import torch

import initscope

pytestmark = pytest.mark.filterwarnings("ignore")
IMAGES = torch.rand(12, 3, 32, 32, generator=torch.Generator().manual_seed(0))
TOKENS = {"input_ids": torch.randint(0, 100, (12, 10), generator=torch.Generator().manual_seed(0))}


def resnet(t):
    return t.ResNetModel(t.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 2])), IMAGES


def convnext(t):
    return t.ConvNextModel(t.ConvNextConfig(hidden_sizes=[16, 32], depths=[1, 1], num_stages=2, patch_size=4)), IMAGES


def mobilenet(t):
    return t.MobileNetV2Model(t.MobileNetV2Config(depth_multiplier=0.35, image_size=32)), IMAGES


def vit(t):
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return t.ViTModel(t.ViTConfig(image_size=32, patch_size=8, **sizes)), IMAGES


def gpt2(t):
    return t.GPT2Model(t.GPT2Config(vocab_size=100, n_positions=16, n_embd=16, n_layer=2, n_head=2)), TOKENS


@pytest.mark.parametrize("build", [resnet, convnext, mobilenet, vit, gpt2], ids=lambda build: build.__name__)
def test_third_party_models_pass_unmodified(build):
    transformers = pytest.importorskip("transformers", reason="the transformers package is not installed")
    torch.manual_seed(0)
    model, data = build(transformers)
    report = initscope.inspect(model.eval(), data, pairs=5, alternatives=False)
    rows = report.table()
    assert len(rows) > 20
    assert all(row["status"] for row in rows)
    measured = [row["cosine_measured"] for row in rows if row["cosine_measured"] is not None]
    assert len(measured) > 0.7 * len(rows)
    assert np.isfinite(measured).all()
