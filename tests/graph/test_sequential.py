"""Stacks of layers are traced without running them: the nodes are those of a symbolic trace."""

import pytest
import torch
from torch import nn

from initscope.graph import bind, trace
from initscope.graph.sequential import sequential_trace
from initscope.graph.single_ops import stays_whole

_LAYER = nn.Linear(4, 4)
STACKS = {
    "flat": lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 4)),
    "nested": lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Sequential(nn.Sequential(nn.Tanh()))),
    "a layer twice": lambda: nn.Sequential(_LAYER, nn.ReLU(), _LAYER, nn.Sequential(_LAYER)),
    "named": lambda: nn.Sequential(*[nn.Linear(4, 4)]).append(nn.Dropout(0.2)),
    "empty": lambda: nn.Sequential(),
    "hooked layer": lambda: _hooked(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), inner=True),
}


def _hooked(model, *, inner):
    (model[0] if inner else model).register_forward_hook(lambda module, args, output: output * 2)
    return model


def _facts(graph):
    return [
        (node.index, node.name, node.op, node.kind, node.function, node.module, node.path, node.traits, node.reads)
        for node in graph.nodes
    ]


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("name", STACKS)
def test_nodes_are_those_of_a_symbolic_trace(name, given, monkeypatch):
    model, x = STACKS[name](), torch.randn(5, 4)
    direct = trace(model, x if given else None)
    assert sequential_trace(model, bind(model, x), stays_whole) is not None
    monkeypatch.setattr("initscope.graph.tracing.sequential_trace", lambda *call: None)
    symbolic = trace(model, x if given else None)
    assert _facts(direct) == _facts(symbolic)
    assert [node.name for node in direct.returned] == [node.name for node in symbolic.returned]
    assert direct.output.name == symbolic.output.name
    model.eval()
    seen = []
    output = direct.execute(bind(model, x), lambda node, args, kwargs, value: seen.append(node))
    torch.testing.assert_close(output, model(x), rtol=0, atol=0)
    assert seen == list(direct.nodes)


def test_other_models_are_traced_as_before():
    class Own(nn.Sequential):
        def forward(self, x):
            return super().forward(x) + x

    x = torch.randn(5, 4)
    own = Own(nn.Linear(4, 4), nn.ReLU())
    assert sequential_trace(own, bind(own, x), stays_whole) is None
    assert [node.kind for node in trace(own, x).nodes] == ["input", "Linear", "ReLU", "add"]
    block = nn.Sequential(_hooked(nn.Sequential(nn.Linear(4, 4)), inner=False), nn.ReLU())
    assert [node.kind for node in trace(block, x).nodes] == ["input", "Linear", "mul", "ReLU"]
