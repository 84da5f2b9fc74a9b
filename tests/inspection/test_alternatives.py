"""What-if: the start it recommends cures in draw after draw, sizes are changed as said, and nothing is kept silent."""

import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import initscope
from initscope.graph import Inputs
from initscope.initializers import He
from initscope.inspection import Thresholds, judge, what_if
from initscope.inspection.alternatives import start_score
from initscope.inspection.spending import multiplications
from initscope.measurement import observe
from initscope.models.sizes import halve_depth, scale_widths


def mlp(depth, law, *, width, bias=False, inputs=64, seed=0):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(inputs, width, bias=bias), nn.ReLU()]
        inputs = width
    return law.fill_(nn.Sequential(*layers, nn.Linear(inputs, 10)), generator=torch.Generator().manual_seed(seed))


def samples(count=96, seed=1):
    return torch.rand(count, 64, generator=torch.Generator().manual_seed(seed))


def faults(model, seed=0):
    found = judge(observe(model, samples(), pairs=16, seed=seed))
    return [finding.name for finding in found if finding.level == "error"]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def deep():
    """A hundred He layers of width 64, where depth exceeds width and chance alone closes angles."""
    model = mlp(100, He(), width=64)
    return model, what_if(model, samples()[:12], samples()[12:24])


def test_a_hundred_he_layers_are_cured_in_draw_after_draw(deep):
    """The weights alone, other draws than those that the table saw: 9 of 10 are asked for. He cures none."""
    model, table = deep
    assert {"collapse", "rank-loss"} <= set(faults(model))
    cured = [not faults(table.best.initializer.fill_(model, generator=generator(100 + seed))) for seed in range(10)]
    assert sum(cured) >= 9
    assert faults(He().fill_(model, generator=generator(100)))


def test_multiplications_of_tokens_are_counted():
    """Three tokens a sample, each times a matrix of 4 by 5; limits on what trials cost saw none of them."""
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 5))
    assert multiplications(model, Inputs((torch.tensor([[1, 2, 3], [4, 5, 6]]),))) == 3 * 4 * 5


def test_rounding_is_no_angle():
    """Eighteen sigmoid layers leave 1e-11 of an angle, of which float32 has no digit: neither has what is told."""
    generator = torch.Generator().manual_seed(0)
    layers = [layer for _ in range(18) for layer in (nn.Linear(64, 64), nn.Sigmoid())]
    model = initscope.initializers.Glorot().fill_(nn.Sequential(*layers, nn.Linear(64, 8)), generator=generator)
    report = initscope.inspect(model, samples(), pairs=24)
    now = next(item for item in report.what_if.alternatives if item.name == "as it is")
    assert (now.angle_ratio, now.near_ratio, now.score) == (0, None, 0)
    assert 0 < report.prediction.angle[-1].mean() < 1e-8
    assert "falls to 0 % of its input value" in report.headline


def test_the_table_tells_how_many_draws_crossed_what(deep):
    _, table = deep
    rows = {item.name: item for item in table.alternatives}
    assert table.best.crossed == {}
    assert table.best.findings == "none in 3"
    assert table.best.draws == 3
    assert rows["He"].crossed["collapse"] == rows["He"].draws == 1  # out of the race after its first draw
    assert "collapse 1/1" in rows["He"].findings
    assert rows["looks-linear"].angle_predicted is None
    assert rows["He"].status == "closed form"
    failing = [item.failing / item.draws for item in table.alternatives]
    assert failing == sorted(failing)


def test_the_ranking_follows_the_score_where_every_start_has_a_fault():
    """Every start "vanishes" here: the order is that of the score, and the best three are drawn three times."""
    everything_vanishes = Thresholds(vanishing=1e9)
    table = what_if(mlp(8, He(), width=16), samples()[:6], samples()[6:12], thresholds=everything_vanishes)
    assert all(item.failing == item.draws for item in table.alternatives)
    assert not table.helps  # so that nobody is told to type the best of them
    scores = [item.score for item in table.alternatives]
    assert scores == sorted(scores, reverse=True)
    assert sorted(item.draws for item in table.alternatives)[-4:] == [1, 3, 3, 3]


def test_the_score_is_what_its_words_say():
    """Best at outputs a third of the inputs' size; ten times more or less costs a factor of ten, a spread of gradients
    or a loss of angle its third root, nearly; what is lost altogether scores nothing."""
    best = start_score(1.0, 10**-0.5, 1.0)
    assert best == pytest.approx(1)
    assert start_score(1.0, 10**0.5, 1.0) == start_score(1.0, 10**-1.5, 1.0) == pytest.approx(0.1)
    assert start_score(1.0, 10**-0.5, 10.0) == start_score(0.1, 10**-0.5, 1.0) == pytest.approx(10**-0.3)
    assert start_score(2.0, 10**-0.5, 1.0) == pytest.approx(1)  # angles that open are no better
    assert start_score(1.0, 10**-0.5, 1.0, 10.0) == pytest.approx(10**-0.3)
    assert start_score(1.0, 10**-0.5, 1.0, 0.1) == start_score(1.0, 10**-0.5, 1.0, float("nan")) == pytest.approx(1)
    for lost in ((0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, float("inf")), (float("nan"), 1.0, 1.0)):
        assert start_score(*lost) == 0


def test_near_samples_are_driven_apart_by_zero_sums_and_not_by_mirrored_weights():
    """Forty layers: mirrored weights are a linear map, which treats near samples as others, but for the chance of ten
    outputs; zero sums are chaotic."""
    table = what_if(mlp(40, He(), width=64), samples()[:8], samples()[8:16], draws=1)
    found = {item.name: item for item in table.alternatives}
    assert found["looks-linear"].near_ratio < 2
    assert all(item.near_ratio is None or np.isfinite(item.near_ratio) for item in table.alternatives)
    assert found["zero-sum, strength 0.5"].near_ratio > 5
    assert found["looks-linear"].score > found["zero-sum, strength 0.5"].score


def test_batch_norm_also_stands_behind_transposed_convolutions():
    """Else its row is that of He's weights, digit for digit."""
    layers = nn.ConvTranspose2d(4, 8, 3), nn.ReLU(), nn.ConvTranspose2d(8, 8, 3), nn.ReLU(), nn.ConvTranspose2d(8, 2, 3)
    codes = torch.randn(12, 4, 3, 3, generator=generator())
    found = {item.name: item for item in what_if(nn.Sequential(*layers), codes[:6], codes[6:], draws=1).alternatives}
    assert found["batch norm"].angle_ratio != found["He"].angle_ratio


class Attending(nn.Module):
    """Attention with skips, and a ReLU behind it, of weights far too large."""

    def __init__(self):
        super().__init__()
        self.attention, self.last = nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 4)

    def forward(self, x):
        return self.last(torch.relu(x + self.attention(x, x, x)[0]).mean(1))


@pytest.mark.parametrize("kind", ["attention", "recurrent", "tanh", "relu"])
def test_laws_are_offered_where_they_make_sense(kind):
    """Zero sums and mirrored halves are for ReLUs: not for projections of an attention, gates, or a stack of tanh."""
    stack = [nn.Linear(64, 32), nn.Tanh() if kind == "tanh" else nn.ReLU(), nn.Linear(32, 4)]
    model = nn.Sequential(*stack)
    x = samples(24)
    if kind in ("attention", "recurrent"):
        x = x.unflatten(1, (4, 16))
        model = Attending() if kind == "attention" else Recurrent()
    report = initscope.inspect(model, x, pairs=8, thresholds=Thresholds(exploding=1e-9))
    offered = {item.name for item in report.what_if.alternatives} | set(report.what_if.skipped)
    assert {"He", "orthogonal"} <= offered
    for_relu = {name for name in offered if "zero-sum" in name or "looks-linear" in name or "leaky" in name}
    assert bool(for_relu) is (kind == "relu")
    assert ("batch norm" in offered) is (kind in ("relu", "tanh"))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.loop, self.last = nn.LSTM(16, 16, batch_first=True), nn.Sequential(nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        return self.last(self.loop(x)[0][:, -1])


def test_a_dead_layer_is_revived():
    model = mlp(4, He(), width=96, bias=True)
    with torch.no_grad():
        model[4].bias.fill_(-100.0)
    report = initscope.inspect(model, samples(), pairs=16)
    assert "dead-units" in {finding.name for finding in report.findings}
    rows = {item.name: item for item in report.what_if.alternatives}
    assert "dead-units" in rows["hidden widths × 2"].crossed  # its biases are those of the model
    assert not faults(report.fix.initializer.fill_(model, generator=generator(5)))


def test_widths_are_those_of_the_wider_network_built_by_hand():
    """Log of the gradient spread and of the size at the end over 20 draws each: means within 4 standard errors."""

    def numbers(model, seed):
        seen = observe(model, samples(24), pairs=12, seed=0)
        return np.log([np.median(seen.rms_ratio[-1]), np.median(seen.gradient_ratio[1]), seen.effective_rank[-1]])

    ours, theirs = [], []
    for seed in range(20):
        model = mlp(6, He(), width=24, seed=seed)
        scale_widths(model, 2.0, samples(2), generator(500 + seed))
        assert [layer.weight.shape for layer in model if isinstance(layer, nn.Linear)][:2] == [(48, 64), (48, 48)]
        assert model[-1].weight.shape == (10, 48)
        ours.append(numbers(model, seed))
        theirs.append(numbers(mlp(6, He(), width=48, seed=1000 + seed), seed))
    gap = np.mean(ours, axis=0) - np.mean(theirs, axis=0)
    error = np.sqrt((np.var(ours, axis=0, ddof=1) + np.var(theirs, axis=0, ddof=1)) / 20)
    assert (np.abs(gap) < 4 * error).all()
    # Without dividing the variance by the growth of fan-in, six layers would be 2³ times as large: log 8 = 2.1.
    assert 8 * error[0] < np.log(8)


class Convolutional(nn.Module):
    """A skip, a depthwise and a strided convolution, norms, a transposed one, PReLU, flattening."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(2, 8)) for _ in range(5))
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.down, self.prelu = nn.Conv2d(8, 12, 3, stride=2, padding=1), nn.PReLU(12)
        self.up = nn.ConvTranspose2d(12, 4, 2, stride=2)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(4 * 64, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 5))

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(F.relu(x))
        return self.head(self.up(self.prelu(self.down(self.depthwise(x)))))


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_all_kinds_of_hidden_layers_change_their_width(factor):
    torch.manual_seed(0)
    model, x = Convolutional(), torch.rand(4, 3, 8, 8)
    scale_widths(model, factor, x, generator())
    assert model(x).shape == (4, 5)
    hidden = int(8 * factor)
    assert model.stem[0].weight.shape == (hidden, 3, 3, 3)
    assert model.stem[1].running_mean.shape == (hidden,)
    assert model.depthwise.weight.shape == (hidden, 1, 3, 3)
    assert model.up.weight.shape == (int(12 * factor), int(4 * factor), 2, 2)
    assert model.head[1].in_features == int(4 * factor) * 64
    assert model.head[-1].weight.shape == (5, int(16 * factor))


def test_depth_is_halved_block_by_block():
    model = Convolutional()
    third = model.blocks[2]
    halve_depth(model)
    assert len(model.blocks) == 3
    assert model.blocks[2] is third  # the first ones stay, with their weights
    assert model(torch.rand(4, 3, 8, 8)).shape == (4, 5)
    dense = mlp(9, He(), width=16)
    halve_depth(dense)
    assert [type(layer).__name__ for layer in dense] == ["Linear", "ReLU"] * 5 + ["Linear"]
    shared = nn.ReLU()
    again = nn.Sequential(nn.Linear(4, 4), shared, nn.Linear(4, 4), shared, nn.Linear(4, 4), shared, nn.Linear(4, 2))
    halve_depth(again)
    assert [type(layer).__name__ for layer in again] == ["Linear", "ReLU"] * 2 + ["Linear"]


class Fixed(nn.Module):
    """Writes its width into ``forward``, so that no other width runs."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(1, 6, 3), nn.Linear(6 * 16, 4)

    def forward(self, x):
        return self.last(F.relu(self.first(x)).reshape(-1, 96))


def test_what_cannot_be_tried_is_named():
    x = torch.rand(24, 1, 6, 6, generator=generator())
    sick = Thresholds(vanishing=1e9)  # a fault to look for alternatives for
    report = initscope.inspect(Fixed(), x, pairs=8, thresholds=sick)
    assert {"hidden widths × 2", "hidden widths × ½", "depth × ½"} <= set(report.what_if.skipped)
    assert "no block that is repeated" in report.what_if.skipped["depth × ½"]
    assert "Not tried: " in report.to_html()
    assert "He" in {item.name for item in report.what_if.alternatives}


def test_a_healthy_network_is_told_to_change_nothing(capsys, tmp_path):
    """No alternative is tried, so none is recommended; what to type is nothing, not an error."""
    model = mlp(2, He(), width=64)
    report = initscope.inspect(model, samples(24), pairs=8)
    assert not report.errors
    assert report.what_if.alternatives == ()
    assert report.what_if.best.code is None
    assert report.what_if.untried == "no alternative was tried: there are no errors or warnings"
    assert "Before and after" not in report.to_html()
    two = TwoInputs()
    x = samples(24)
    sick = initscope.inspect(two, (x, x.flip(0)), pairs=8, thresholds=Thresholds(vanishing=1e9))
    assert sick.what_if.best.code is None
    assert "one input only" in sick.what_if.untried


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = (nn.Linear(64, 16) for _ in range(2))

    def forward(self, a, b):
        return torch.relu(self.left(a) + self.right(b))


def test_laws_that_cost_too_much_to_draw_are_named(monkeypatch):
    """Orthogonal weights decompose every matrix: 2·32·64·32 + 2·32·32·32 + 2·10·32·10 multiplications here."""
    monkeypatch.setattr(sys.modules["initscope.inspection.spending"], "SAMPLING", 1e5)
    table = what_if(mlp(2, He(), width=32), samples()[:6], samples()[6:12])
    assert {"orthogonal", "looks-linear"} <= set(table.skipped)
    assert f"{2 * 32 * 64 * 32 + 2 * 32**3 + 2 * 10 * 32 * 10:.0e}" in table.skipped["orthogonal"]
    assert "He" in {item.name for item in table.alternatives}


def test_large_models_are_tried_on_one_draw_and_not_wider(monkeypatch):
    monkeypatch.setattr(sys.modules["initscope.inspection.spending"], "LARGE", 1000.0)
    model = mlp(2, He(), width=32)
    table = what_if(model, samples()[:6], samples()[6:12])
    assert "multiplications" in table.skipped["hidden widths × 2"]
    assert {item.draws for item in table.alternatives} == {1}
    work = 32 * 64 + 32 * 32 + 10 * 32
    assert f"{4 * work:.0e}" in table.skipped["hidden widths × 2"]


def test_alternatives_leave_the_model_alone_and_follow_the_mode():
    model = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    table = what_if(model, samples()[:6], samples()[6:12], mode="eval")
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    rows = {item.name: item for item in table.alternatives}
    assert rows["He"].status == "closed form"  # in train mode batch statistics are measured


class Called(nn.Module):
    """Its Linear is called as a function, and its ReLU is a module."""

    def __init__(self):
        super().__init__()
        self.weight, self.relu = nn.Parameter(torch.randn(16, 64, generator=generator()) / 8), nn.ReLU()

    def forward(self, x):
        return self.relu(F.linear(x, self.weight))


def test_a_model_without_a_module_with_weights():
    report = initscope.inspect(Called(), samples(24), pairs=8)
    assert report.what_if is not None


def test_dropout_leaves_the_random_state_alone():
    model = nn.Sequential(nn.Linear(64, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 4)).train()
    before = torch.get_rng_state()
    what_if(model, samples()[:6], samples()[6:12])
    assert torch.equal(before, torch.get_rng_state())


def test_quadrature_is_not_repeated_for_every_alternative(monkeypatch):
    """Closed forms are: ``He`` has its prediction in the tests above."""
    module, calls = sys.modules["initscope.inspection.alternatives"], []
    monkeypatch.setattr(module, "predict", lambda *args: calls.append(args) or initscope.predict(*args))
    model, x, y = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 4)), samples()[:6], samples()[6:12]
    first = what_if(model, x, y)
    assert len(calls) == 1
    again = what_if(model, x, y, prediction=initscope.predict(model, x, y))
    assert len(calls) == 1
    kept = [next(row for row in table.alternatives if row.name == "as it is") for table in (first, again)]
    assert kept[0].angle_predicted == kept[1].angle_predicted
    assert kept[0].angle_predicted is not None


def test_the_steps_of_a_copy_are_found_once(monkeypatch):
    """For its pairs and the near ones, and for all laws in one copy, which change no step: the numbers are the same."""
    module, calls = sys.modules["initscope.inspection.alternatives"], []
    trace, observe = module.trace, module.observe
    monkeypatch.setattr(
        module, "trace", lambda model, *given, **named: calls.append(model) or trace(model, *given, **named)
    )
    model, x, y = mlp(3, He(), width=32), samples()[:6], samples()[6:12]
    table = what_if(model, x, y)
    changed = [item for item in table.alternatives if item.initializer is None]
    assert len({id(copy) for copy in calls}) == len(calls) == 1 + len(changed) + sum(item.draws - 1 for item in changed)
    monkeypatch.setattr(module, "observe", lambda traced, *given, **named: observe(traced.model, *given, **named))
    assert what_if(model, x, y) == table


class _ByHand(nn.Module):
    """Products that no layer makes."""

    def __init__(self):
        super().__init__()
        self.query, self.weight = nn.Linear(16, 16), nn.Parameter(torch.zeros(16, 8))

    def forward(self, x):
        heads = self.query(x).unsqueeze(1)
        attended = F.scaled_dot_product_attention(heads, heads, heads)[:, 0]
        return torch.einsum("btc,cd->btd", attended, self.weight) @ x.new_zeros(8, 3)


@pytest.mark.parametrize(("model", "shape"), [
    (nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, 4, 3, stride=2)), (3, 8, 8)),
    (nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), (5, 16)),
    (nn.GRU(16, 8, batch_first=True, bidirectional=True), (5, 16)),
    (_ByHand(), (5, 16)),
])  # fmt: skip
def test_multiplications_are_those_that_torch_counts(model, shape):
    """Two operations each; the count decides how much is tried."""
    x = torch.zeros(2, *shape)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(x)
    assert multiplications(model, Inputs((x,))) == counter.get_total_flops() / 2 / len(x) > 0


def test_the_budget_decides_before_it_spends_and_says_what_it_left_out(monkeypatch):
    """Every start is either observed or named with its cost; what is observed stays within the limit."""
    module, calls = sys.modules["initscope.inspection.alternatives"], []
    observe = module.observe
    monkeypatch.setattr(module, "observe", lambda *given, **named: calls.append(1) or observe(*given, **named))
    model, x, y = mlp(2, He(), width=32), samples()[:6], samples()[6:12]
    free = what_if(model, x, y)
    assert not any("for all trials" in reason for reason in free.skipped.values())
    monkeypatch.setattr(sys.modules["initscope.inspection.spending"], "LEAST", 0.0)
    calls.clear()
    table = what_if(model, x, y)
    left_out = {name for name, reason in table.skipped.items() if "for all trials" in reason}
    names = {item.name for item in table.alternatives}
    assert left_out
    assert 2 * sum(item.draws for item in table.alternatives) == len(calls)  # pairs, and near samples
    assert names | set(table.skipped) >= {item.name for item in free.alternatives}
    assert names.isdisjoint(left_out)


def test_progress_sees_every_other_start():
    seen = []

    def progress(starts):
        for start in starts:
            seen.append(start)
            yield start

    table = what_if(mlp(2, He(), width=32), samples()[:6], samples()[6:12], progress=progress)
    again = sum(item.draws - 1 for item in table.alternatives)
    others = len(table.alternatives) - 1  # the model as it is comes before
    assert len(seen) == others + len(table.skipped) + again
