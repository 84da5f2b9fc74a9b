"""Can a head reach a low loss: every row of the table that the instrument was designed for, and more heads."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from initscope.inspection.instruments import examine_head

SAMPLES, FEATURES, CLASSES = 64, 20, 10


def batch():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, FEATURES, generator=generator)
    labels = torch.arange(SAMPLES) % CLASSES
    real = 3 * torch.randn(SAMPLES, 1, generator=generator) + 1
    return x, labels, real, (labels % 2).float()[:, None]


X, LABELS, REAL, BINARY = batch()
ONE_HOT = F.one_hot(LABELS, CLASSES).float()
SHARES = torch.softmax(torch.randn(SAMPLES, CLASSES, generator=torch.Generator().manual_seed(1)), dim=1)
ENTROPY = float(torch.distributions.Categorical(ONE_HOT.mean(dim=0)).entropy())


def mlp(outputs, *after):
    return nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, outputs), *after)


class Then(nn.Module):
    """A small network and a function of its output."""

    def __init__(self, outputs, function, **parameters):
        super().__init__()
        self.net, self.function = mlp(outputs), function
        for name, value in parameters.items():
            self.register_parameter(name, nn.Parameter(value))

    def forward(self, x):
        return self.function(self, self.net(x))


def divergence(output, targets):
    return F.kl_div(output, targets, reduction="batchmean")


REACHES = {
    "logits": (lambda: mlp(CLASSES), LABELS, F.cross_entropy),
    "log-softmax and cross-entropy": (lambda: mlp(CLASSES, nn.LogSoftmax(1)), LABELS, F.cross_entropy),
    "log-softmax and nll": (lambda: mlp(CLASSES, nn.LogSoftmax(1)), LABELS, F.nll_loss),
    "softmax and mse": (lambda: mlp(CLASSES, nn.Softmax(1)), ONE_HOT, F.mse_loss),
    "sigmoid and bce": (lambda: mlp(1, nn.Sigmoid()), BINARY, F.binary_cross_entropy),
    "softmax and a logarithm": (lambda: mlp(CLASSES, nn.Softmax(1)), ONE_HOT, lambda p, t: -(p.log() * t).mean()),
    "several labels": (lambda: mlp(CLASSES), ONE_HOT, F.binary_cross_entropy_with_logits),
    "huber": (lambda: mlp(1), REAL, F.huber_loss),
    "mse of large targets": (lambda: mlp(1), 1e5 * REAL + 1e6, F.mse_loss),
    "mse of small targets": (lambda: mlp(1), 1e-6 * REAL, F.mse_loss),
    "divergence of log-probabilities": (lambda: mlp(CLASSES, nn.LogSoftmax(1)), SHARES, divergence),
    "poisson": (lambda: mlp(1), REAL.abs().round(), F.poisson_nll_loss),
    "mean and variance": (
        lambda: Then(2, lambda self, z: (z[:, :1], F.softplus(z[:, 1:]))),
        REAL,
        lambda output, targets: F.gaussian_nll_loss(output[0], targets, output[1]),
    ),
    "cosines of vectors": (lambda: mlp(8), X[:, :8], lambda o, t: 1 - F.cosine_similarity(o, t).mean()),
    "cosines times a learned scale": (
        lambda: Then(8, lambda self, z: self.s * F.cosine_similarity(z[:, None], self.w, dim=2),
             s=torch.tensor(1.0), w=torch.randn(CLASSES, 8)),
        LABELS,
        F.cross_entropy,
    ),
    "smoothed labels": (lambda: mlp(CLASSES), LABELS, nn.CrossEntropyLoss(label_smoothing=0.2)),
    "a norm with a learned scale": (lambda: mlp(1, nn.BatchNorm1d(1)), 100 * REAL, F.mse_loss),
    "sums": (lambda: mlp(CLASSES), LABELS, nn.CrossEntropyLoss(reduction="sum")),
    "margins": (lambda: mlp(CLASSES), LABELS, F.multi_margin_loss),
    "a dict": (lambda: Then(CLASSES, lambda s, z: {"logits": z, "norm": z.norm()}), LABELS,
               lambda o, t: F.cross_entropy(o["logits"], t)),
    "a loss that returns a tuple": (lambda: mlp(CLASSES), LABELS, lambda o, t: (F.cross_entropy(o, t), {"note": 1})),
    "frozen layers": (lambda: mlp(CLASSES).requires_grad_(False), LABELS, F.cross_entropy),
}  # fmt: skip


@pytest.mark.parametrize("name", REACHES)
def test_heads_that_reach_a_low_loss(name):
    build, targets, loss = REACHES[name]
    head = examine_head(build(), X, targets, loss)
    assert head.outcome == "reaches", head
    assert head.reached < head.constant
    assert head.layers == 1


FLOORS = {
    "softmax": (lambda: mlp(CLASSES, nn.Softmax(1)), LABELS, F.cross_entropy, math.log(math.e + CLASSES - 1) - 1),
    "sigmoid": (lambda: mlp(CLASSES, nn.Sigmoid()), LABELS, F.cross_entropy, math.log(math.e + CLASSES - 1) - 1),
    "tanh": (lambda: mlp(CLASSES, nn.Tanh()), LABELS, F.cross_entropy, math.log(math.e + (CLASSES - 1) / math.e) - 1),
    "sigmoid and mse": (
        lambda: mlp(1, nn.Sigmoid()),
        REAL,
        F.mse_loss,
        float((REAL - REAL.clamp(0, 1)).square().mean()),
    ),
    "sigmoid and bce with logits": (
        lambda: mlp(1, nn.Sigmoid()),
        BINARY,
        F.binary_cross_entropy_with_logits,
        (math.log(2) + math.log1p(math.exp(-1))) / 2,
    ),
    "one sigmoid and three classes": (
        lambda: mlp(1, nn.Sigmoid()),
        (LABELS % 3).float()[:, None],
        F.mse_loss,
        float((LABELS % 3 == 2).float().mean()),
    ),
    "values written in place": (
        lambda: Then(CLASSES, lambda self, z: _written(z)),
        LABELS,
        F.cross_entropy,
        math.log(math.e + (CLASSES - 1) / math.e) - 1,
    ),
    "pixels of a tanh": (
        lambda: Then(4, lambda self, z: torch.tanh(z)),
        3 + X[:, :4],
        F.mse_loss,
        None,
    ),
}


def _written(z):
    out = torch.zeros(len(z), CLASSES)
    out[:, :5] = z[:, :5]
    out[:, 5:] = z[:, 5:]
    return out.tanh_()


@pytest.mark.parametrize("name", FLOORS)
def test_heads_with_a_floor_reach_what_can_be_calculated(name):
    """The floors are those of outputs at the ends of their ranges, calculated by hand."""
    build, targets, loss, floor = FLOORS[name]
    head = examine_head(build(), X, targets, loss)
    assert head.outcome == "floor", head
    if floor is not None:
        assert head.reached == pytest.approx(floor, rel=2e-3)
    assert head.free < 0.01 * head.constant


def test_relu_before_cross_entropy_stays_where_its_units_are_off():
    head = examine_head(mlp(CLASSES, nn.ReLU()), X, LABELS, F.cross_entropy)
    assert head.outcome == "floor"
    assert 0.2 < head.flat < 0.8  # about half of the logits are cut off
    assert head.output_range == (0.0, float("inf"))


def test_relu_before_a_squared_error_cannot_reach_negative_targets():
    head = examine_head(mlp(1, nn.ReLU()), X, REAL, F.mse_loss)
    assert head.outcome == "floor"
    assert head.targets_outside == pytest.approx(float((REAL < 0).float().mean()))
    assert head.reached >= float(REAL.clamp_max(0).square().mean()) * 0.999


@pytest.mark.parametrize(
    ("outputs", "targets", "loss"), [(CLASSES, LABELS, F.nll_loss), (CLASSES, SHARES, divergence)], ids=["nll", "kl"]
)
def test_logits_taken_for_logarithms_have_no_lower_bound(outputs, targets, loss):
    head = examine_head(mlp(outputs), X, targets, loss)
    assert head.outcome == "unbounded"
    assert head.reached < -100


def test_a_softmax_over_one_unit_is_constant():
    head = examine_head(mlp(1, nn.Softmax(1)), X, BINARY, F.binary_cross_entropy)
    assert (head.outcome, head.output_range) == ("constant", (1.0, 1.0))
    assert head.reached == head.start
    assert head.free < 0.01
    assert head.constant == pytest.approx(math.log(2), rel=1e-3)


def test_cross_entropy_of_one_unit_is_constant():
    assert examine_head(mlp(1), X, torch.zeros(SAMPLES).long(), F.cross_entropy).outcome == "constant"


def test_a_sigmoid_far_out_is_stuck():
    model = mlp(1, nn.Sigmoid())
    nn.init.constant_(model[2].bias, 1e4)
    head = examine_head(model, X, BINARY, F.mse_loss)
    assert (head.outcome, head.flat) == ("stuck", 1.0)


def test_different_shapes_are_compared_all_with_all():
    """Paired outputs reach 0, broadcast ones the variance of the targets."""
    model = Then(1, lambda self, z: z.squeeze(1))
    head = examine_head(model, X, REAL, lambda output, targets: (output - targets).square().mean())
    assert (head.outcome, head.broadcast) == ("floor", True)
    assert head.free == pytest.approx(float(REAL.var(correction=0)), rel=1e-3)
    assert head.paired < 0.01 * head.free


def test_dropout_after_the_logits_leaves_a_floor():
    head = examine_head(mlp(CLASSES, nn.Dropout(0.5)), X, LABELS, F.cross_entropy)
    assert (head.outcome, head.random) == ("floor", True)
    assert head.reached > 0.3


def test_a_softmax_over_the_samples_leaves_a_floor():
    assert examine_head(mlp(CLASSES, nn.Softmax(0)), X, LABELS, F.cross_entropy).outcome == "floor"


def test_constant_predictions_are_those_of_the_textbook():
    assert examine_head(mlp(CLASSES), X, LABELS, F.cross_entropy).constant == pytest.approx(ENTROPY, rel=1e-3)
    expected = float(REAL.var(correction=0))
    assert examine_head(mlp(1), X, REAL, F.mse_loss).constant == pytest.approx(expected, rel=1e-3)
    median = float((REAL - REAL.median()).abs().mean())
    assert examine_head(mlp(1), X, REAL, F.l1_loss).constant == pytest.approx(median, rel=1e-3)


class Words(nn.Module):
    def __init__(self, kind="tensor"):
        super().__init__()
        self.table, self.loop, self.last = nn.Embedding(17, 16), nn.LSTM(16, 16, batch_first=True), nn.Linear(16, 17)
        self.kind = kind

    def forward(self, ids):
        hidden, state = self.loop(self.table(ids))
        logits = self.last(hidden)
        return logits if self.kind == "tensor" else (logits, state)


@pytest.mark.parametrize("kind", ["tensor", "tuple"])
def test_sequences_of_classes(kind):
    ids, targets = torch.randint(0, 17, (2, SAMPLES, 9))

    def loss(output, targets):
        return F.cross_entropy((output[0] if kind == "tuple" else output).transpose(1, 2), targets)

    head = examine_head(Words(kind), ids, targets, loss)
    assert (head.outcome, head.layers) == ("reaches", 1)
    counts = torch.bincount(targets.flatten()) / targets.numel()
    assert head.constant == pytest.approx(float(-(counts * counts.log()).sum()), rel=1e-3)


def test_outputs_of_a_recurrent_layer_are_bounded():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.loop = nn.LSTM(FEATURES, 1, batch_first=True)

        def forward(self, x):
            return self.loop(x[:, None])[0][:, -1]

    head = examine_head(Last(), X, REAL, F.mse_loss)
    assert (head.outcome, head.output_range) == ("floor", (-1.0, 1.0))
    assert head.reached == pytest.approx(float((REAL - REAL.clamp(-1, 1)).square().mean()), rel=0.01)


def test_connectionist_temporal_classification():
    class Speech(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(8, 6)

        def forward(self, x):
            return self.last(x).log_softmax(2).transpose(0, 1)

    samples, times = 12, 20
    lengths = torch.full((samples,), times), torch.full((samples,), 5)
    words = torch.randint(1, 6, (samples, 5))
    head = examine_head(Speech(), torch.randn(samples, times, 8), words, lambda o, t: F.ctc_loss(o, t, *lengths))
    assert head.outcome == "reaches"
    assert 0 <= head.reached < 0.05


def test_an_autoencoder_frees_every_layer_that_the_loss_reads():
    class Variational(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean, self.spread, self.back = nn.Linear(FEATURES, 4), nn.Linear(FEATURES, 4), nn.Linear(4, FEATURES)

        def forward(self, x):
            mean, spread = self.mean(x), self.spread(x)
            return self.back(mean + torch.randn_like(mean) * (spread / 2).exp()), mean, spread

    def loss(output, x):
        return F.mse_loss(output[0], x) + 1e-3 * (output[1].square() + output[2].exp() - output[2] - 1).mean()

    head = examine_head(Variational(), X, X, loss)
    assert (head.outcome, head.layers) == ("reaches", 3)
    assert examine_head(Variational(), X, None, lambda output, _: loss(output, X)).outcome == "not examined"


def test_hugging_face_models_with_their_own_loss():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=23, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config)
    ids = torch.randint(0, 23, (8, 12))
    head = examine_head(model, {"input_ids": ids, "labels": ids}, ids, lambda output, _: output.loss)
    assert (head.outcome, head.free) == ("reaches", None)
    assert head.reached < 0.1 < head.constant
    inferred = examine_head(model, {"input_ids": ids, "labels": ids}, ids, None)
    assert inferred == head
    logits = examine_head(model, ids, ids, lambda output, t: F.cross_entropy(output.logits.transpose(1, 2), t))
    assert logits.outcome == "reaches"
    assert logits.free < 0.01


@pytest.mark.parametrize(
    ("model", "targets", "loss", "reason"),
    [
        (mlp(CLASSES), None, F.cross_entropy, "no targets"),
        (mlp(CLASSES), LABELS, nn.CrossEntropyLoss(reduction="none"), "reduce it to one value"),
        (mlp(3), LABELS, F.cross_entropy, "out of bounds"),
        (mlp(1), LABELS.float(), nn.BCEWithLogitsLoss(), "Target size"),
        (mlp(CLASSES), LABELS, None, "pass loss="),
        (mlp(CLASSES), LABELS, lambda o, t: 1.0, "float"),
        (Then(1, lambda self, z: z * float("nan")), REAL, F.mse_loss, "nan at initialization"),
        (nn.Flatten(), X, F.mse_loss, "no trainable layer"),
    ],
)
def test_what_cannot_be_examined_says_why(model, targets, loss, reason):
    head = examine_head(model, X, targets, loss)
    assert head.outcome == "not examined"
    assert reason in head.reason


def test_a_loss_that_ignores_the_output_is_constant():
    assert examine_head(mlp(1), X, REAL, lambda o, t: t.mean()).outcome == "constant"


def test_model_and_random_state_are_as_before():
    model = mlp(CLASSES, nn.BatchNorm1d(CLASSES), nn.Dropout(0.5)).eval()
    model[0].weight.grad = torch.ones_like(model[0].weight)
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    examine_head(model, X, LABELS, F.cross_entropy)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert not model.training
    assert all(p.requires_grad for p in model.parameters())
    assert bool((model[0].weight.grad == 1).all())


def test_sorted_data_is_sampled_with_all_classes():
    x, labels = torch.randn(1000, FEATURES), torch.arange(1000) // 100
    head = examine_head(mlp(CLASSES), x, labels, F.cross_entropy)
    assert head.samples == 64
    assert head.constant == pytest.approx(math.log(CLASSES), abs=0.02)  # 64 samples of ten classes


def test_maps_that_are_cut_off_in_part_reach_a_low_loss():
    """SqueezeNet averages the logits of all positions after a ReLU: most classes have a position that is on."""

    class Averaged(nn.Module):
        def __init__(self, positions):
            super().__init__()
            self.last = nn.Conv1d(FEATURES, CLASSES, 1)
            self.positions = positions

        def forward(self, x):
            noise = torch.randn(1, FEATURES, self.positions, generator=torch.Generator().manual_seed(0))
            return self.last(x[:, :, None] + 2 * noise).relu().mean(dim=2)

    several, one = (examine_head(Averaged(positions), X, LABELS, F.cross_entropy) for positions in (8, 1))
    assert several.outcome == "reaches"
    assert several.elsewhere is None or several.elsewhere < 0.01 * several.constant
    assert one.outcome == "floor"
    assert one.elsewhere < 0.01 * one.constant


def test_a_saturated_softmax_reaches_a_low_loss_from_smaller_outputs():
    """Outputs of 0 and 1 have no gradient through a logarithm that is cut off, which is no floor."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, CLASSES), nn.Softmax(1))
    nn.init.normal_(model[0].weight, std=8.0)

    def loss(probabilities, labels):
        return F.nll_loss(probabilities.clamp(1e-7, 1.0).log(), labels)

    head = examine_head(model, X, LABELS, loss)
    assert head.outcome == "reaches"
    assert head.flat > 0.5
    assert head.start > head.constant == pytest.approx(ENTROPY, rel=0.02)
    assert head.free <= 0.02
    assert head.reached <= 0.02
