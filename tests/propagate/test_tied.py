"""A table of words that is also the last layer, against networks that are drawn."""

import numpy as np
import torch
from torch import nn

import initscope

WORDS, WIDTH = 40, 128


class Tied(nn.Module):
    """Words, a block, a norm, and the table as the last layer."""

    def __init__(self, last_only=False):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight
        self.block, self.norm, self.last_only = nn.Linear(WIDTH, WIDTH), nn.RMSNorm(WIDTH), last_only
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        nn.init.normal_(self.words.weight, std=0.3)

    def forward(self, tokens):
        x = self.words(tokens)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = self.norm(x + self.block(x))
        return self.head(x[:, -2:] if self.last_only else x)


def sequences():
    generator = torch.Generator().manual_seed(3)
    x = torch.randint(0, WORDS, (4, 9), generator=generator)
    y = x.clone()
    y[:, ::2] = torch.randint(0, WORDS, (4, 5), generator=generator)
    return x, y


def compare(**options):
    torch.manual_seed(1234)
    model = Tied(**options)
    predicted = initscope.predict(model, *sequences())
    measured = initscope.measure(model, *sequences(), draws=32, seed=7)
    return predicted, measured


def test_logits_of_own_words_are_larger():
    """Within 3 % of the size and 4 standard errors + .02 of the cosine; a head of its own would be half the size."""
    predicted, measured = compare()
    row = predicted.rows[-1]
    assert row.layer == "head"
    assert row.status == "closed form after sampling"
    assert "table of words" in row.note
    assert not any("networks" in one.note for one in predicted.rows)
    size = predicted.rms_ratio[-1].mean() / measured.rms_ratio[-1].mean()
    assert abs(size - 1) < 0.03
    assert predicted.rms_ratio[-1].mean() > 1.3 * predicted.rms_ratio[-2].mean() * 0.3 * WIDTH**0.5
    error = np.hypot(measured.mean_cosine_se[-1], predicted.cosine_se[-1].mean())
    assert abs(predicted.cosine[-1].mean() - measured.cosine[-1].mean()) < 4 * error + 0.02


def test_the_last_tokens_alone():
    """The share of the words follows positions that are chosen."""
    predicted, measured = compare(last_only=True)
    assert not any("networks" in one.note for one in predicted.rows)
    assert abs(predicted.rms_ratio[-1].mean() / measured.rms_ratio[-1].mean() - 1) < 0.03
