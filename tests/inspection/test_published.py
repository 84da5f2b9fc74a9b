"""What published architectures do that looks like a fault and is none, each in a few lines, and the fault beside it."""

from itertools import pairwise

import pytest
import torch
from torch import nn

import initscope
from initscope.models.training_loop import seeded

WIDTH, TOKENS, WORDS = 32, 16, 64


def faults(build, data, **options):
    with seeded(0):
        model = build()
    options = {"alternatives": False, "prediction": False, "trial": False} | options
    report = initscope.inspect(model, data, pairs=12, **options)
    return {finding.name for finding in (*report.errors, *report.warnings)}


def words(tokens=TOKENS):
    """Text of a kind: small numbers are frequent."""
    drawn = torch.rand(24, tokens, generator=torch.Generator().manual_seed(0))
    return (WORDS * drawn**3).long()


class Embedded(nn.Module):
    """A table of words, a norm, blocks around a skip, a head for every place."""

    def __init__(self, *blocks, deviation=0.02, gain=1.0):
        super().__init__()
        self.table, self.norm = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH)
        nn.init.normal_(self.table.weight, std=deviation)
        self.blocks, self.head = nn.ModuleList(blocks), nn.Linear(WIDTH, WORDS)
        self.gain, self.last = gain, nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x = self.norm(self.table(ids))
        for block in self.blocks:
            x = x + self.gain * block(x)
        return self.head(self.last(x))


class Fourier(nn.Module):
    """Mixing by the Fourier transform over tokens and units (Lee-Thorp et al. 2022), not scaled."""

    def __init__(self):
        super().__init__()
        self.up, self.norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        return self.up(self.norm(torch.fft.fft2(x).real)) + torch.fft.fft2(x).real


@pytest.mark.parametrize("deviation", [1e-4, 0.02, 1.0])
def test_sizes_count_from_behind_the_norm_that_a_table_stands_before(deviation):
    assert faults(lambda: Embedded(Fourier(), deviation=deviation), words()) == set()
    assert "exploding" in faults(lambda: Embedded(Fourier(), deviation=deviation, gain=1e4), words())


class WeightedMean(nn.Module):
    """A mean over the past with weights e^key that forgets, kept stable by a running maximum (Peng et al. 2023)."""

    def __init__(self):
        super().__init__()
        self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        keys, values, outputs = self.key(x), self.value(x), []
        most = torch.full_like(keys[:, 0], -1e38)
        above, below = torch.zeros_like(most), torch.zeros_like(most)
        for place in range(x.shape[1]):
            now = torch.maximum(most - 0.1, keys[:, place])
            old, new = torch.exp(most - 0.1 - now), torch.exp(keys[:, place] - now)
            above, below, most = old * above + new * values[:, place], old * below + new, now
            outputs.append(above / below)
        return self.out(torch.stack(outputs, dim=1))


def test_a_state_that_begins_at_minus_infinity_overflows_nowhere():
    assert faults(lambda: Embedded(WeightedMean()), words(6)) == set()

    class Huge(WeightedMean):
        def forward(self, x):
            return super().forward(1e6 * x) / 1e6

    assert "float16-overflow" in faults(lambda: Embedded(Huge()), words(6))


class Translator(nn.Module):
    """Encoder and decoder that look at which of their arguments are given before they run."""

    def __init__(self):
        super().__init__()
        self.table, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.encoder, self.decoder = nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        angles = torch.arange(TOKENS)[:, None] / 100 ** (torch.arange(WIDTH) / WIDTH)
        self.places.weight = nn.Parameter(angles.sin(), requires_grad=False)
        self.head = nn.Linear(WIDTH, WORDS)

    def embedded(self, ids, embeddings):
        if (ids is None) == (embeddings is None):
            raise ValueError("give ids or embeddings")
        return (self.table(ids) if embeddings is None else embeddings) + self.places.weight[: ids.shape[1]]

    def forward(self, ids=None, embeddings=None, decoder_ids=None, decoder_embeddings=None):
        source = self.encoder(self.embedded(ids, embeddings)).tanh().mean(1, keepdim=True)
        target = self.embedded(decoder_ids, decoder_embeddings)
        return self.head(self.decoder(torch.cat([target, source.expand_as(target)], dim=-1)).tanh())


def test_two_texts_given_by_name_and_a_frozen_table_of_positions():
    assert faults(Translator, {"ids": words(), "decoder_ids": words().roll(1, 0)}) == set()

    def frozen():
        model = Translator()
        model.encoder.requires_grad_(False)
        return model

    assert "frozen-layers" in faults(frozen, {"ids": words(), "decoder_ids": words().roll(1, 0)})


class Latents(nn.Module):
    """A few learned tokens that look at all pixels, then at each other (Jaegle et al. 2021)."""

    def __init__(self, *, deviation=1.0):
        super().__init__()
        self.latents, self.enter = nn.Parameter(0.02 * torch.randn(8, WIDTH)), nn.Linear(1, WIDTH)
        self.places = nn.Parameter(torch.randn(64, WIDTH))
        self.before, self.norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.cross = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        layers = [nn.TransformerEncoderLayer(WIDTH, 4, 64, 0.0, batch_first=True, norm_first=True) for _ in range(2)]
        self.blocks, self.head = nn.Sequential(*layers), nn.Linear(WIDTH, 10)
        nn.init.normal_(self.blocks[1].linear2.weight, std=deviation / 8)

    def forward(self, images):
        pixels = self.before(self.enter(images.flatten(1)[..., None]) + self.places)
        latents = self.latents.expand(images.shape[0], -1, -1)
        seen, _ = self.cross(self.norm(latents), pixels, pixels, need_weights=False)
        return self.head(self.blocks(latents + seen).mean(1))


def test_latents_that_average_pixels_do_not_collapse_them():
    digits = torch.as_tensor(initscope.data.load("digits").images[:24])
    images = (digits - digits.mean()) / digits.std()
    assert faults(Latents, images) <= {"axis-order"}
    assert "exploding" in faults(lambda: Latents(deviation=1e5), images)


class Patches(nn.Module):
    """Patches of an image as tokens, as many as there are units further on, and a norm over their units."""

    def __init__(self):
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, WIDTH // 2, 4, stride=4), nn.LayerNorm(WIDTH // 2)
        self.between = nn.Linear(WIDTH // 2, 64)
        self.norms = nn.ModuleList(nn.LayerNorm(64) for _ in range(3))
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))
        self.head = nn.Linear(64, 5)

    def forward(self, images):
        x = self.between(self.first(self.patches(images).flatten(2).mT))
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x)).relu()
        return self.head(x.mean(1))


def test_a_norm_of_the_channels_of_patches_is_over_units():
    images = torch.randn(24, 3, 32, 32, generator=torch.Generator().manual_seed(0)).cumsum(-1) / 4
    assert faults(Patches, images) == set()


def test_widths_that_alternate_are_no_trend_of_gradients():
    images = torch.as_tensor(initscope.data.load("digits").images[:48]).flatten(1)
    images = (images - images.mean()) / images.std()

    def build():
        sizes = (64, 1024, 16, 1024, 16, 1024, 16)
        layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
        return initscope.initializers.he_(nn.Sequential(*layers, nn.Linear(16, 10)))

    assert faults(build, images) == set()


class Writer(nn.Module):
    """A language model whose words are its head."""

    def __init__(self):
        super().__init__()
        self.words, self.block, self.norm = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids)
        return self.head(self.norm(x + self.block(x).relu()))


def test_tied_words_are_drawn_smaller_and_not_put_to_zero():
    ids = torch.cat([words(), words().roll(3, 1)])
    with seeded(0):
        model = Writer()
        nn.init.normal_(model.words.weight, std=3.0)
    options = {"pairs": 12, "alternatives": False, "prediction": False}
    report = initscope.inspect(model, ids, **options)
    (code,) = [finding.fix.code for finding in report.errors]
    exec(code, {"model": model, "torch": torch})
    assert initscope.inspect(model, ids, **options).healthy


def test_units_that_a_norm_kills_are_revived_by_its_bias():
    model = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 5))
    nn.init.constant_(model[1].bias, -10.0)
    data = torch.randn(48, 16, generator=torch.Generator().manual_seed(0)).cumsum(-1)
    report = initscope.inspect(model, data, pairs=12, alternatives=False, prediction=False)
    codes = {finding.name: finding.fix.code for finding in report.findings if finding.fix}
    assert codes["dead-units"] == 'torch.nn.init.zeros_(model.get_submodule("1").bias)'
