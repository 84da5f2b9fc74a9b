"""Checks of weights, data and parameters: each on a network that has the problem and on the same one without it."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import initscope
from initscope.inspection.inputs import input_facts
from initscope.inspection.weights import weight_facts
from initscope.measurement import observe
from initscope.measurement.number_formats import FORMATS


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def digits(count=64):
    data = initscope.data.load("digits")
    images = torch.as_tensor(data.images[:count]).flatten(1)
    return (images - images.mean()) / images.std(), torch.as_tensor(data.labels[:count]).long()


def stack(depth=3, width=32, outputs=10, seed=0):
    torch.manual_seed(seed)
    sizes = [64, *[width] * depth]
    layers = [part for i in range(depth) for part in (nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def inspect(model, data=None, **options):
    inputs, labels = digits()
    options = {"pairs": 16, "alternatives": False, "prediction": False, "targets": labels, "trial": False} | options
    return initscope.inspect(model, inputs if data is None else data, **options)


def problems(report):
    return {finding.name: finding for finding in (*report.errors, *report.warnings)}


def test_nothing_is_said_of_a_healthy_network():
    report = inspect(stack())
    assert report.healthy
    assert not problems(report)
    assert report.cautions == ()
    assert report.headline.startswith("No problems found (4 layers,")


def test_the_equal_layers_of_torchs_encoder_are_named_and_fixed_by_the_code():
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 3)
    model = nn.Sequential(nn.Unflatten(1, (4, 16)), encoder, nn.Flatten(), nn.Linear(64, 10))
    found = problems(inspect(model))["equal-layers"]
    assert (found.layer, found.level, found.value) == ("1.layers.1.self_attn", "warning", 8)
    assert "the same initial weights as 1.layers.0.self_attn" in found.message
    exec(found.fix.code, {"model": model, "initscope": initscope})
    assert "equal-layers" not in problems(inspect(model))


def test_fewer_equal_layers_are_no_fix_of_equal_layers():
    """Half of four equal blocks are two equal blocks: what is suggested initializes them again."""
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 4)
    model = nn.Sequential(nn.Unflatten(1, (4, 16)), encoder, nn.Flatten(), nn.Linear(64, 10))
    table = inspect(model, alternatives=True).what_if
    crossed = {item.name: item.crossed for item in table.alternatives}
    assert crossed["depth × ½"] == {"equal-layers": 1}
    assert table.best.initializer is not None
    assert table.best.crossed == {}


def test_tied_frozen_and_constant_weights_are_no_clones():
    tied, teacher, ones = stack(), stack(), stack()
    tied[4].weight = tied[2].weight
    teacher.add_module("teacher", stack().requires_grad_(False))
    for layer in ones[::2]:
        nn.init.ones_(layer.weight)
    for model in (tied, teacher, ones):
        assert weight_facts(model).clones == {}


def test_equal_units_are_symmetric_and_zero_ones_are_not():
    model = stack()
    nn.init.constant_(model[2].weight, 0.1)
    found = problems(inspect(model))["equal-units"]
    assert found.layer == "2"
    assert found.value == pytest.approx(31 / 32)
    exec(found.fix.code, {"model": model, "torch": torch})
    assert "equal-units" not in problems(inspect(model))
    nn.init.zeros_(model[6].weight)
    assert weight_facts(model).symmetric == {}


def test_one_layer_unlike_its_peers():
    model = stack(6)
    with torch.no_grad():
        model[6].weight.mul_(4)
    found = problems(inspect(model))["odd-layer"]
    assert (found.layer, found.value) == ("6", pytest.approx(4, rel=0.1))
    assert "odd-layer" not in problems(inspect(stack(6)))


class Cut(nn.Module):
    def __init__(self, detached=False, skipped=False):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(64, 32), nn.Linear(32, 32), nn.Linear(32, 10)
        self.detached, self.skipped = detached, skipped

    def forward(self, x):
        h = F.relu(self.first(x))
        h = h.detach() if self.detached else h
        return self.last(h if self.skipped else F.relu(self.second(h)))


class Quantized(nn.Module):
    """The nearest of some vectors in place of the code, its gradient passed by, in several spellings."""

    def __init__(self, spelling):
        super().__init__()
        self.encode, self.codes, self.decode = nn.Linear(6, 8), nn.Embedding(16, 8), nn.Linear(8, 6)
        self.spelling = spelling

    def forward(self, x):
        z = self.encode(x)
        q = self.codes(torch.cdist(z, self.codes.weight).argmin(1))
        return self.decode(self.spelling(z, q))


@pytest.mark.parametrize(
    ("spelling", "fault"),
    [
        (lambda z, q: z + (q - z).detach(), False),
        (lambda z, q: q.detach() + z - z.detach(), False),
        (lambda z, q: q.detach() - z.detach() + z, False),
        (lambda z, q: z + q.detach(), True),
        (lambda z, q: z + (z - q).detach(), True),
    ],
)
def test_straight_through_is_meant(spelling, fault):
    torch.manual_seed(0)
    report = initscope.inspect(Quantized(spelling), torch.randn(40, 6), pairs=8, alternatives=False, prediction=False)
    (found,) = (finding for finding in report.findings if finding.layer == "codes")
    assert found.name == ("detached" if fault else "outside-loss")


@pytest.mark.parametrize(
    ("kind", "layer", "name"),
    [
        ("detached", "first", "detached"),
        ("skipped", "second", "unused-layer"),
        ("frozen", "second", "frozen-layers"),
        ("dropped", "1", "dropout-all"),
    ],
)
def test_what_the_loss_does_not_reach(kind, layer, name):
    torch.manual_seed(0)
    model = Cut(detached=kind == "detached", skipped=kind == "skipped")
    if kind == "frozen":
        model.second.requires_grad_(False)
    if kind == "dropped":
        model = nn.Sequential(nn.Linear(64, 32), nn.Dropout(1.0), nn.ReLU(), nn.Linear(32, 10))
    found = problems(inspect(model))[name]
    assert found.layer == layer
    torch.manual_seed(0)
    assert name not in problems(inspect(Cut()))
    if found.fix.code:
        exec(found.fix.code, {"model": model})
        assert name not in problems(inspect(model))
    if kind == "skipped":  # heads that only training has are not run in evaluation
        assert name not in problems(inspect(model.eval()))


def test_an_output_that_the_loss_does_not_read_is_information():
    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.one, self.other = nn.Linear(64, 32), nn.Linear(32, 10), nn.Linear(32, 5)

        def forward(self, x):
            h = F.relu(self.body(x))
            return self.one(h), self.other(h)

    torch.manual_seed(0)
    report = inspect(TwoHeads(), loss=lambda outputs, labels: F.cross_entropy(outputs[0], labels))
    assert report.healthy
    assert [finding.layer for finding in report.findings if finding.name == "outside-loss"] == ["other"]


def test_the_loss_at_the_start_is_that_of_torch():
    """Against the cross-entropy of the same 16 samples, by hand."""
    inputs, labels = digits()
    model = stack()
    with torch.no_grad():
        model[6].weight.mul_(100)
    report = inspect(model)
    found = problems(report)["initial-loss"]
    x, _ = report.observation.x, report.observation.y
    places = [int(((inputs - sample).abs().sum(dim=1)).argmin()) for sample in x]
    by_hand = float(F.cross_entropy(model(inputs[places]).detach(), labels[places])) - math.log(10)
    assert found.value == pytest.approx(by_hand, rel=1e-4)
    assert found.layer == "6"
    exec(found.fix.code, {"model": model, "torch": torch})
    assert inspect(model).facts.reading.loss == pytest.approx(math.log(10), abs=0.2)


def test_a_last_layer_that_is_too_large_has_its_own_fix():
    """Alternatives are scored without targets: for such a network half of its depth was the best once."""
    model = stack()
    with torch.no_grad():
        model[6].weight.mul_(100)
    inputs, labels = digits()
    report = initscope.inspect(model, inputs, targets=labels, pairs=16, prediction=False, trial=False)
    assert set(problems(report)) == {"initial-loss"}
    assert report.what_if.untried == "no alternative was tried: other weights or sizes do not fix initial-loss"
    assert report.fix.code == problems(report)["initial-loss"].fix.code
    assert report.fix.code in report.to_markdown()
    # The trial learns from such a start, and less from a last layer of zeros: a warning, and no fix is suggested.
    learned = initscope.inspect(model, inputs, targets=labels, pairs=16, prediction=False)
    (finding,) = problems(learned).values()
    assert (learned.trial.outcome, finding.name, finding.level) == ("learns", "initial-loss", "warning")
    assert (finding.fix.tried, finding.fix.helped, finding.fix.code, learned.fix) == (True, False, None, None)


def test_an_initializer_that_helps_does_not_hide_what_else_has_to_be_fixed():
    report = inspect(nn.Sequential(stack(depth=20), nn.ReLU()), alternatives=True, loss=F.cross_entropy)
    found, written = problems(report), report.to_markdown()
    assert report.what_if.helps
    assert {"loss-floor", "gradient-imbalance"} <= set(found)
    assert found["loss-floor"].fix.code in written
    assert report.fix.code in written


def test_labels_of_a_data_set_belong_to_as_many_outputs():
    data = initscope.data.load("digits").take(48)
    for outputs, known in ((10, True), (64, False)):
        with torch.no_grad():
            model = nn.Sequential(nn.Flatten(), stack(outputs=outputs))
            model[1][-1].weight.mul_(1000)
        found = inspect(model, data, targets=None)
        assert ("initial-loss" in {finding.name for finding in found.findings}) is known
        assert (found.facts.reading.loss is not None) is known
    alone = inspect(model, data[data.labels == 3], targets=None)
    assert any("one class" in caution for caution in alone.cautions)


def test_the_words_of_a_language_model_are_its_labels():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.norm = nn.Embedding(200, 64), nn.LayerNorm(64)

        def forward(self, words):
            return F.linear(self.norm(self.words(words)), self.words.weight)

    torch.manual_seed(0)
    words = torch.randint(0, 200, (40, 12), generator=torch.Generator().manual_seed(0))
    assert "initial-loss" in problems(inspect(Tied(), words, targets=None))
    small = Tied()
    nn.init.normal_(small.words.weight, std=0.02)
    assert "initial-loss" not in problems(inspect(small, words, targets=None))


def test_inputs_of_bytes_and_constant_channels():
    images = 127 + 60 * normal(48, 3, 8, 8)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    assert problems(inspect(model, images, targets=None))["input-scale"].value == pytest.approx(140, rel=0.05)
    normed = nn.Sequential(nn.BatchNorm2d(3), *model)
    assert "input-scale" not in problems(inspect(normed, images, targets=None))
    images[:, 1] = 5.0
    assert "1 of 3 channels of the input never change" in str(
        problems(inspect(model, images / 100, targets=None))["constant-channels"]
    )


def test_of_equal_samples_it_is_told_that_they_are_equal():
    """Images of zeros: dividing by their deviation, which the size of inputs asks for, mends nothing."""
    blank = torch.zeros(32, 3, 8, 8)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    found = problems(inspect(model, blank, targets=None))
    assert "constant-data" in found
    assert "input-scale" not in found


def test_values_beyond_half_precision_are_named_where_they_begin():
    model = stack()
    with torch.no_grad():
        model[2].weight.mul_(1e6)
    assert problems(inspect(model))["float16-overflow"].layer == "2"
    assert {row.format for row in inspect(model).precision} == {form.name for form in FORMATS}


@pytest.mark.parametrize("shape", [(200, 20), (40, 3, 8, 8)])
def test_random_data_is_told_before_any_verdict(shape):
    model = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape[1:]), 16), nn.ReLU(), nn.Linear(16, 3))
    for data in (normal(*shape), torch.rand(shape, generator=torch.Generator().manual_seed(1))):
        assert any("random" in said for said in input_facts(observe(model, data, pairs=shape[0] // 2)).cautions)
    smooth = normal(*shape).cumsum(dim=-1)
    assert input_facts(observe(model, smooth, pairs=shape[0] // 2)).cautions == ()


def test_few_samples_and_one_class_are_told():
    inputs, labels = digits(8)
    cautions = inspect(stack(), inputs, targets=torch.zeros_like(labels), pairs=4).cautions
    assert ["8 samples" in cautions[0], "one class" in cautions[1]] == [True, True]


def test_token_cosines_and_entropies_by_hand():
    """Against all pairs of tokens, and against the definition of the entropy, one query at a time."""
    torch.manual_seed(0)
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    x = normal(10, 6, 8) + 1
    seen = observe(_Called(model), x, pairs=5, opened=True)
    tokens = F.normalize(x, dim=-1)
    cosines = [float(s[i] @ s[j]) for s in tokens for i in range(6) for j in range(6) if i != j]
    assert seen.token_cosine[0] == pytest.approx(np.mean(cosines), abs=1e-5)
    weights = model(x, x, x, average_attn_weights=False)[1].detach()
    entropy = -(weights * weights.log()).sum(-1).mean() / math.log(6)
    row = [row.kind for row in seen.rows].index("softmax")
    assert seen.attention_entropy[row] == pytest.approx(float(entropy), abs=1e-5)
    fused = observe(_Called(model, need_weights=False), x, pairs=5, opened=True)
    row = [row.kind for row in fused.rows].index("scaled_dot_product_attention")
    assert fused.attention_entropy[row] == pytest.approx(float(entropy), abs=0.02)  # of 8 of the 10 samples


class _Called(nn.Module):
    def __init__(self, inner, **options):
        super().__init__()
        self.inner, self.options = inner, options

    def forward(self, x):
        return self.inner(x, x, x, **self.options)[0]


def test_batch_norm_that_has_seen_nothing_is_told_and_blames_nobody():
    torch.manual_seed(0)
    blocks = [part for _ in range(30) for part in (nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU())]
    model = nn.Sequential(*blocks, nn.Linear(64, 10)).eval()
    report = inspect(model)
    assert "has seen no data" in report.cautions[0]
    assert {"vanishing", "collapse"} & {finding.name for finding in report.findings}
    assert not {"vanishing", "collapse"} & set(problems(report))
    assert inspect(model, mode="train").cautions == ()


class Listed(nn.Module):
    """Layers in a list of Python's, or in one of torch's."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.hidden, self.head = kind([nn.Linear(64, 64), nn.Linear(64, 64)]), nn.Linear(64, 10)

    def forward(self, x):
        for layer in self.hidden:
            x = F.relu(layer(x))
        return self.head(x)


def test_layers_in_a_plain_list_are_seen_by_no_optimizer():
    found = problems(inspect(Listed(list)))["unregistered-weights"]
    assert found.layer == "hidden"
    assert "not in model.parameters()" in found.message
    model = Listed(list)
    exec(found.fix.code, {"model": model, "torch": torch})
    assert inspect(model).healthy
    assert "unregistered-weights" not in problems(inspect(Listed(nn.ModuleList)))


def test_one_layer_n_times_is_told_and_a_loop_over_one_layer_is_not():
    torch.manual_seed(0)
    layer = nn.Linear(64, 64)
    same = nn.Sequential(*[layer, nn.ReLU()] * 3, nn.Linear(64, 10))
    found = problems(inspect(same))["repeated-module"]
    assert (found.level, found.layer, "the same module as 0" in found.message) == ("warning", "2", True)
    apart = nn.Sequential(*[part for _ in range(3) for part in (nn.Linear(64, 64), nn.ReLU())], nn.Linear(64, 10))
    assert "repeated-module" not in problems(inspect(apart))


def test_two_equal_blocks_are_information_and_three_are_a_warning():
    def model(copies):
        torch.manual_seed(0)
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), copies)
        return nn.Sequential(nn.Unflatten(1, (4, 16)), encoder, nn.Flatten(), nn.Linear(64, 10))

    found = [[f.level for f in inspect(model(copies)).findings if f.name == "equal-layers"] for copies in (2, 3)]
    assert found == [["info"], ["warning"]]


def test_dropout_of_nearly_everything_and_of_half():
    for share, expected in ((1.0, ["dropout-all"]), (0.99, ["dropout-high"]), (0.5, [])):
        model = stack()
        model.insert(2, nn.Dropout(share))
        assert [name for name in problems(inspect(model)) if name.startswith("dropout")] == expected


def test_a_gradient_that_is_not_finite_where_values_are():
    class Distance(nn.Module):
        def __init__(self, root):
            super().__init__()
            self.embed, self.root = stack(), root

        def forward(self, one, two):
            return self.root((self.embed(one) - self.embed(two)).square().sum(1))

    one, _ = digits()
    two = one.roll(1, 0)
    two[::2] = one[::2]
    found = problems(inspect(Distance(torch.sqrt), (one, two), targets=None))["gradient-not-finite"]
    assert found.layer == "embed.0"
    safe = inspect(Distance(lambda square: torch.sqrt(square + 1e-6)), (one, two), targets=None)
    assert "gradient-not-finite" not in problems(safe)


def test_what_passes_through_numpy_is_detached_and_what_is_not_used_is_aside():
    class Net(nn.Module):
        def __init__(self, use):
            super().__init__()
            self.first, self.norm, self.head, self.use = nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Linear(64, 10), use

        def forward(self, x):  # behind the norm it does not matter how large the weights are
            made = torch.from_numpy(self.norm(self.first(x)).detach().numpy().copy())
            return self.head(made if self.use else x)

    assert problems(inspect(Net(use=True)))["detached"].layer == "first"
    assert "detached" not in problems(inspect(Net(use=False)))


def test_one_large_column_is_a_warning_and_fixed_by_column():
    inputs, _ = digits()
    for offset, name in ((100.0, "uneven-columns"), (1e5, "input-scale")):
        rows = torch.cat([normal(64, 60), offset + normal(64, 4)[:, :1].expand(64, 4) + inputs[:, :4] * 0], 1)
        rows[:, 61:] = normal(64, 3, seed=1)
        found = problems(inspect(stack(), rows))
        assert next(iter(found)) == name
        assert found[name].fix.code == "data = (data - data.mean(0)) / (data.std(0) + 1e-6)"
        assert found["uneven-columns"].message.startswith("Column 60 is")
        assert found["uneven-columns"].caused_by == (None if name == "uneven-columns" else "IS601")


def test_targets_may_be_a_dict_or_a_tuple():
    inputs, labels = digits()
    model = nn.ModuleDict({"kind": stack(), "sum": nn.Linear(64, 1)})

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = model

        def forward(self, x):
            return {name: head(x) for name, head in self.heads.items()}

    def loss(output, targets):
        assert len(targets["sum"]) == len(output["sum"]) == 16
        return F.cross_entropy(output["kind"], targets["kind"]) + F.mse_loss(output["sum"][:, 0], targets["sum"])

    wanted = {"kind": labels, "sum": inputs.mean(1)}
    report = inspect(Heads(), targets=wanted, loss=loss)
    assert report.healthy
    assert report.facts.step.failed == ""
    pair = inspect(stack(), targets=(labels, labels), loss=lambda output, both: F.cross_entropy(output, both[1]))
    assert pair.facts.step.failed == ""
    with pytest.raises(initscope.errors.InputError, match=f"5 targets for {len(inputs)} samples; give one for each"):
        inspect(stack(), targets=labels[:5])
    with pytest.raises(initscope.errors.InputError, match="different lengths"):
        inspect(Heads(), targets=wanted | {"sum": labels[:5]}, loss=loss)
