"""Published architectures at their published initialization: they run, and none has an error."""

import math

import pytest
import torch
from evaluation.published.registry import HEALTHY, SMALL

QUICK = ("VGG-BN", "ResNet-20", "autoencoder", "nn.TransformerEncoder", "LSTM", "GCN", "tabular MLP")
"""Models whose trial takes seconds; `evaluation.rotation` gives all others their trials in turn."""


def run(member, count=8):
    model = member.make(0)
    inputs, targets = member.data(count)
    output = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
    return model, member.loss(output, targets)


def test_there_are_sixty_architectures_and_their_sources_are_named():
    assert len(HEALTHY) >= 60
    assert len(SMALL) == 15
    assert all(member.source for member in HEALTHY.values())


@pytest.mark.parametrize("name", SMALL)
def test_a_member_runs_and_its_loss_reaches_its_weights(name):
    model, loss = run(HEALTHY[name])
    loss.backward()
    assert math.isfinite(loss.item())
    reached = [parameter.grad is not None for parameter in model.parameters() if parameter.requires_grad]
    assert all(reached)


def test_a_start_follows_the_seed_and_leaves_the_generator_alone():
    state = torch.get_rng_state()
    first, again, other = (HEALTHY["ViT"].make(seed).blocks[0].mlp[0].weight for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("name", SMALL)
def test_the_healthy_are_called_healthy(name):
    report = HEALTHY[name].inspect(0, trial=None if name in QUICK else False)
    assert report.healthy, [str(finding) for finding in report.errors]
