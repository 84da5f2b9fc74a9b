"""Bugs inside the model, each a flag of a small network."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.development_5 import domains
from evaluation.programs import Case, Program
from evaluation.scores import accuracy, r2

SGD = torch.optim.SGD


def on_tokens(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return the mean cross-entropy over positions."""
    return F.cross_entropy(logits.transpose(1, 2), tokens)


class Activity(nn.Module):
    """A 1-D network for sensor windows."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.a, self.b = nn.Conv1d(6, width, 5, padding=2), nn.Conv1d(width, width, 5, padding=2)
        self.head = nn.Linear(width, 5)

    def forward(self, window: Tensor) -> Tensor:
        """Return scores of activities."""
        return self.head(F.relu(self.b(F.relu(self.a(window)))).square().mean(-1))


class ShapeNet(nn.Module):
    """Convolutions for shapes, with a choice of what happens between features and head."""

    def __init__(self, *, norm: nn.Module | None = None, drop: nn.Module | None = None, momentum: float = 0.1) -> None:
        super().__init__()
        self.drop = drop or nn.Identity()
        self.features = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16, momentum=momentum), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32, momentum=momentum), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(1)),
        )
        self.norm, self.head = norm or nn.Identity(), nn.Linear(32, 4)

    def forward(self, image: Tensor) -> Tensor:
        """Return scores of shapes."""
        return self.head(self.norm(self.features(self.drop(image))).flatten(1))


class SkipOnly(nn.Module):
    """Blocks whose result is dropped: ``x = x + x``."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.stem, self.head, self.wrong = nn.Linear(2, 32), nn.Linear(32, 1), wrong
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32)) for _ in range(3))

    def forward(self, point: Tensor) -> Tensor:
        """Return a value."""
        x = self.stem(point)
        for block in self.blocks:
            y = block(x)
            x = x + x if self.wrong else x + y
        return self.head(x)


class Review(nn.Module):
    """A GRU over padded reviews that reads its last position, or the last word."""

    def __init__(self, padded: bool) -> None:
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(50, 24), nn.RNN(24, 24, batch_first=True), nn.Linear(24, 2)
        self.padded = padded

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of two classes."""
        states, _ = self.rnn(self.embed(tokens))
        if self.padded:
            return self.head(states[:, -1])
        last = (tokens > 0).sum(1) - 1
        return self.head(states[torch.arange(len(tokens)), last])


def long_padding(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return reviews of at most 12 words, padded to 60 positions."""
    tokens, labels = domains.reviews(12)(count, generator)
    return F.pad(tokens, (0, 48)), labels


class Elman(nn.Module):
    """A tanh recurrence with a gain of its initialization."""

    def __init__(self, gain: float) -> None:
        super().__init__()
        self.rnn, self.head = nn.RNN(1, 32, batch_first=True), nn.Linear(32, 6)
        for weight in (self.rnn.weight_ih_l0, self.rnn.weight_hh_l0):
            nn.init.xavier_normal_(weight, gain=gain)

    def forward(self, series: Tensor) -> Tensor:
        """Return the next six values."""
        return self.head(self.rnn(series[..., None])[0][:, -1])


class AllZero(nn.Module):
    """A recommender whose factors start at one value."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(40, 8), nn.Embedding(60, 8)
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=start)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        """Return ratings."""
        return (self.user(user) * self.item(item)).sum(1)


def deep(activation, *, depth: int = 6, width: int = 32, gain: float | None = None, inputs: int = 2, outputs: int = 1):
    """Return hidden layers with one activation, orthogonal with ``gain`` if given."""
    layers: list[nn.Module] = []
    for index in range(depth):
        layer = nn.Linear(inputs if index == 0 else width, width)
        if gain is not None:
            nn.init.orthogonal_(layer.weight, gain=gain)
            nn.init.zeros_(layer.bias)
        layers += [layer, activation()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


class Apply(nn.Module):
    """A function as a module."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, values: Tensor) -> Tensor:
        """Return the function's values."""
        return self.function(values)


class Gates(nn.Module):
    """Twenty gates that are multiplied, or gated residual steps."""

    def __init__(self, product: bool) -> None:
        super().__init__()
        self.stem, self.head, self.product = nn.Linear(2, 24), nn.Linear(24, 1), product
        self.gates = nn.ModuleList(nn.Linear(24, 24) for _ in range(20))

    def forward(self, point: Tensor) -> Tensor:
        """Return a value."""
        x = torch.tanh(self.stem(point))
        for gate in self.gates:
            x = x * torch.sigmoid(gate(x)) if self.product else x + 0.2 * torch.tanh(gate(x))
        return self.head(x)


class GraphNet(nn.Module):
    """Two graph convolutions and a mean over nodes."""

    def __init__(self, *, pool: int = 1, silent: bool = False) -> None:
        super().__init__()
        self.a, self.b, self.head, self.pool, self.silent = (
            nn.Linear(6, 24),
            nn.Linear(24, 24),
            nn.Linear(24, 2),
            pool,
            silent,
        )

    def forward(self, features: Tensor, adjacency: Tensor) -> Tensor:
        """Return scores of two classes."""
        if self.silent:
            adjacency = adjacency * (adjacency > 2)
        h = torch.tanh(self.b(adjacency @ torch.tanh(self.a(adjacency @ features))))
        return self.head(h.mean(1) if self.pool == 1 else h.mean((0, 1)).expand(len(h), -1))


class Variational(nn.Module):
    """A variational autoencoder of spectra; returns the reconstruction, mean and log-variance."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(60, 32), nn.ReLU(), nn.Linear(32, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 60))

    def forward(self, spectrum: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return reconstruction, mean, log-variance."""
        mean, log_variance = self.encoder(spectrum).chunk(2, 1)
        noise = torch.randn_like(mean) if self.training else 0.0
        return self.decoder(mean + noise * (log_variance / 2).exp()), mean, log_variance


def elbo(weight: float):
    """Return a loss with ``weight`` on the divergence."""

    def loss(outputs: tuple[Tensor, Tensor, Tensor], spectrum: Tensor) -> Tensor:
        image, mean, log_variance = outputs
        divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean() / 2
        return F.mse_loss(image, spectrum) * 60 + weight * divergence

    return loss


def own_spectra(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return spectra as inputs and targets."""
    values, _ = domains.spectra(count, generator)
    return values, values


class Truncating(nn.Module):
    """A network that converts its inputs to integers."""

    def __init__(self, convert: bool) -> None:
        super().__init__()
        self.body, self.convert = deep(nn.ReLU, depth=2, inputs=60, outputs=2), convert

    def forward(self, spectrum: Tensor) -> Tensor:
        """Return concentrations."""
        return self.body(spectrum.long().float() if self.convert else spectrum)


class Sine(nn.Module):
    """A sine layer with a frequency, then a linear layer."""

    def __init__(self, frequency: float) -> None:
        super().__init__()
        self.a, self.b, self.c, self.frequency = nn.Linear(2, 64), nn.Linear(64, 64), nn.Linear(64, 1), frequency

    def forward(self, point: Tensor) -> Tensor:
        """Return a value."""
        return self.c(F.relu(self.b(torch.sin(self.frequency * self.a(point)))))


POINTS = {"data": domains.curves, "loss": F.mse_loss, "lr": 3e-3, "steps": 300}
SHAPES = {"data": domains.shapes(), "steps": 250, "lr": 2e-3}


def case(name: str, causes: tuple[str, ...], build, options: dict, score, note: str, *, wrong, right) -> Case:
    """Return a case whose model factory takes one value."""
    return Case(name, causes, Program(lambda: build(wrong), **options), Program(lambda: build(right), **options), score,
                note=note)  # fmt: skip


CASES = (
    case("group_norm_of_single_pixels", ("normalization",),
         lambda groups: ShapeNet(norm=nn.GroupNorm(groups, 32)), SHAPES, accuracy,
         "GroupNorm with one channel for each group on 1×1 maps returns its bias", wrong=32, right=4),
    case("whole_images_dropped", ("dropout",), lambda p: ShapeNet(drop=nn.Dropout2d(p)), SHAPES, accuracy,
         "Dropout2d on one channel drops whole images", wrong=0.97, right=0.0),
    case("running_statistics_never_updated", ("normalization",), lambda m: ShapeNet(momentum=m), SHAPES, accuracy,
         "BatchNorm with momentum 0 evaluates with mean 0 and variance 1", wrong=0.0, right=0.1),
    case("skip_added_to_itself", ("gradient", "unregistered", "frozen"), SkipOnly, POINTS, r2,
         "x + x instead of x + block(x)", wrong=True, right=False),
    case("last_position_is_padding", ("architecture", "gradient", "ignored input"), Review,
         {"data": long_padding, "steps": 300, "lr": 3e-3}, accuracy,
         "the state after 48 padded positions is read", wrong=True, right=False),
    case("recurrent_gain_of_twenty", ("initialization", "activation"), Elman,
         {"data": domains.demand, "loss": F.mse_loss, "lr": 3e-3, "steps": 300}, r2,
         "Xavier with gain 20 saturates a tanh recurrence", wrong=20.0, right=1.0),
    case("factors_start_at_zero", ("initialization", "gradient"), AllZero,
         {"data": domains.ratings(), "loss": F.mse_loss, "lr": 0.02, "steps": 600, "samples": 2048}, r2,
         "both factors of a product start at 0", wrong=0.0, right=0.3),
    case("orthogonal_with_gain_of_a_tenth", ("initialization",),
         lambda gain: deep(nn.Tanh, depth=8, gain=gain), POINTS | {"optimizer": SGD, "lr": 0.1}, r2,
         "the signal shrinks by 10 in each of eight layers", wrong=0.1, right=1.3),
    case("softplus_with_tiny_beta", ("activation", "initialization"),
         lambda beta: deep(lambda: nn.Softplus(beta=beta), depth=4), POINTS, r2,
         "Softplus(beta=0.01) is linear with an offset of 69", wrong=0.01, right=1.0),
    case("clamped_to_a_hundredth", ("activation",),
         lambda top: deep(lambda: nn.Hardtanh(-top, top), depth=3), POINTS | {"optimizer": SGD, "lr": 0.05}, r2,
         "hidden values are clamped to ±0.001", wrong=0.001, right=1.0),
    case("exponential_as_activation", ("activation", "not finite"),
         lambda f: deep(lambda: Apply(f), depth=4), POINTS, r2, "exp as hidden activation overflows",
         wrong=torch.exp, right=torch.tanh),
    case("product_of_twenty_gates", ("architecture", "activation"), Gates, POINTS | {"optimizer": SGD, "lr": 0.1}, r2,
         "twenty sigmoid gates are multiplied", wrong=True, right=False),
    case("empty_adjacency", ("ignored input", "gradient", "architecture"), lambda silent: GraphNet(silent=silent),
         {"data": domains.graphs(), "steps": 300, "lr": 5e-3}, accuracy, "the threshold removes every edge",
         wrong=True, right=False),
    case("nodes_of_all_graphs_pooled", ("samples", "axis"), lambda pool: GraphNet(pool=pool),
         {"data": domains.graphs(), "steps": 300, "lr": 5e-3}, accuracy, "the mean is over all graphs of the batch",
         wrong=0, right=1),
    Case("divergence_weighs_a_thousand", ("loss",),
         Program(Variational, own_spectra, elbo(1000.0), lr=3e-3, steps=300, predict=lambda outputs: outputs[0]),
         Program(Variational, own_spectra, elbo(0.01), lr=3e-3, steps=300, predict=lambda outputs: outputs[0]), r2,
         note="the divergence weighs so much that the code carries nothing"),
    case("inputs_cast_to_integers", ("ignored input", "gradient", "samples"), Truncating,
         {"data": domains.spectra, "loss": F.mse_loss, "lr": 3e-3, "steps": 300}, r2,
         "inputs below 1 become 0 by a cast", wrong=True, right=False),
    case("sine_of_a_thousand", ("activation", "initialization"), Sine, POINTS, r2,
         "the frequency of a sine layer is 1000", wrong=1000.0, right=3.0),
)  # fmt: skip
