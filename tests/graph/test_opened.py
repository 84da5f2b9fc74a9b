"""Modules that hide their steps are opened: a row for every sublayer, and the module's own output bit by bit."""

import copy

import pytest
import torch
from torch import nn

from initscope.graph import bind, trace
from initscope.measurement import observe


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Own(nn.Module):
    """One module, called with further arguments."""

    def __init__(self, inner, call):
        super().__init__()
        self.inner, self.call = inner, call

    def forward(self, x):
        return self.call(self.inner, x)


CAUSAL = nn.Transformer.generate_square_subsequent_mask(5)
LAYER = {"d_model": 12, "nhead": 2, "dim_feedforward": 16, "dropout": 0.0, "batch_first": True}
OPENED = {
    "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**LAYER), 2),
    "encoder, norm first, masked": lambda: Own(
        nn.TransformerEncoder(nn.TransformerEncoderLayer(**LAYER, norm_first=True), 2, enable_nested_tensor=False),
        lambda inner, x: inner(x, mask=CAUSAL),
    ),
    "transformer": lambda: Own(nn.Transformer(12, 2, 1, 1, 16, 0.0, batch_first=True), lambda inner, x: inner(x, x)),
    "attention with weights": lambda: Own(nn.MultiheadAttention(12, 3, batch_first=True), lambda m, x: m(x, x, x)),
    "attention without": lambda: Own(
        nn.MultiheadAttention(12, 3, batch_first=True, bias=False),
        lambda m, x: m(x, x, x, need_weights=False, attn_mask=CAUSAL)[0],
    ),
    "cross attention": lambda: Own(
        nn.MultiheadAttention(12, 3, kdim=6, vdim=6, batch_first=True), lambda m, x: m(x, x[..., :6], x[..., :6])[0]
    ),
    "LSTM": lambda: nn.LSTM(12, 7, 2, batch_first=True),
    "LSTM, both ways": lambda: nn.LSTM(12, 7, 3, bidirectional=True),
    "LSTM, projected, no bias": lambda: nn.LSTM(12, 7, 2, batch_first=True, proj_size=3, bias=False),
    "GRU": lambda: nn.GRU(12, 7, 2, batch_first=True, bidirectional=True),
    "RNN": lambda: nn.RNN(12, 7, 2),
    "RNN, ReLU": lambda: nn.RNN(12, 7, 2, nonlinearity="relu", batch_first=True),
    "given states": lambda: Own(nn.GRU(12, 7, 2, batch_first=True), lambda m, x: m(x, torch.ones(2, len(x), 7))),
}


def flat(output):
    return [output] if isinstance(output, torch.Tensor) else [t for part in output for t in flat(part)]


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", OPENED)
def test_outputs_are_the_modules_own_bit_by_bit(name, training):
    """Of all outputs, hidden states among them; with gradients, as torch itself runs these modules in training."""
    torch.manual_seed(0)
    model, x = OPENED[name]().train(training), normal(6, 5, 12)
    expected = model(x.clone().requires_grad_())
    before = copy.deepcopy(model.state_dict())
    traced, seen = trace(model, x, opened=True), []
    output = traced.execute(bind(model, x), lambda step, args, kwargs, output: seen.append(step))
    assert traced.opened
    assert len(seen) == len(traced.nodes) >= 3
    for ours, theirs in zip(flat(output), flat(expected), strict=True):
        assert torch.equal(ours, theirs)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert model.training == training


def test_every_sublayer_of_an_encoder_has_a_row():
    torch.manual_seed(0)
    seen = observe(OPENED["encoder"](), normal(20, 5, 12), pairs=8, opened=True)
    rows = {row.layer: row for row in seen.rows}
    for layer in ("layers.0", "layers.1"):
        assert rows[f"{layer}.self_attn.in_proj"].shape == (5, 36)
        for sublayer in ("self_attn.in_proj", "self_attn.out_proj", "linear1", "linear2"):
            index = [row.layer for row in seen.rows].index(f"{layer}.{sublayer}")
            assert rows[f"{layer}.{sublayer}"].role == "weights"
            assert (seen.gradient_ratio[index] > 0).all()
        assert {f"{layer}.norm1", f"{layer}.norm2", f"{layer}.add", f"{layer}.add (2)"} <= rows.keys()
    assert seen.rows[seen.output].layer == "layers.1.norm2"
    whole = observe(OPENED["encoder"](), normal(20, 5, 12), pairs=8)
    assert [row.kind for row in whole.rows] == ["input", "TransformerEncoder"]


def test_gates_are_those_of_a_cell_run_step_by_step():
    torch.manual_seed(0)
    lstm, x = nn.LSTM(12, 7, 1, batch_first=True), 30 * normal(8, 5, 12)
    seen = observe(lstm, x, pairs=4, opened=True)
    gates, (h, c) = [], (torch.zeros(8, 7), torch.zeros(8, 7))
    for time in range(5):
        sums = x[:, time] @ lstm.weight_ih_l0.T + h @ lstm.weight_hh_l0.T + lstm.bias_ih_l0 + lstm.bias_hh_l0
        i, f, g, o = sums.chunk(4, dim=1)
        gates.append(torch.cat([i, f, o], dim=1).sigmoid())
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    values = torch.stack(gates)
    by_hand = float(((values < 0.005) | (values > 0.995)).double().mean())
    assert 0.3 < by_hand < 0.95
    row = [row.layer for row in seen.rows].index("l0.gates")
    assert seen.saturated_fraction[row] == pytest.approx(by_hand, abs=1e-6)


def test_packed_sequences_and_dropout_between_layers_stay_whole():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru, self.fc = nn.GRU(12, 7, batch_first=True), nn.Linear(7, 2)

        def forward(self, x):
            packed = nn.utils.rnn.pack_padded_sequence(x, [5] * len(x), batch_first=True)
            return self.fc(self.gru(packed)[1][-1])

    torch.manual_seed(0)
    model, x = Packed(), normal(6, 5, 12)
    traced = trace(model, x, opened=True)
    assert torch.equal(traced.execute(bind(model, x), lambda *call: None), model(x))
    assert "gru.l0" not in traced.by_name
