"""Models of text: BERT, GPT-2, Llama, T5, Mixtral, Mamba, ReZero, the encoder-decoder of 2017."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from evaluation.published.attention import PreNormBlock, SelfAttention, perceptron
from evaluation.published.initialization import normal_, xavier_
from evaluation.published.losses import cross_entropy, next_word
from evaluation.published.members import Member
from evaluation.published.samples import BYTES, labelled_text, text, translation


class PostNormBlock(nn.Module):
    """norm(x + attention(x)), then norm(x + mlp(x)) (Vaswani et al. 2017; BERT)."""

    def __init__(self, width, heads):
        super().__init__()
        self.attention, self.mlp = SelfAttention(width, heads), perceptron(width, 4 * width)
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class Bert(nn.Module):
    """Embeddings of words, places and segments, normed; post-norm blocks; the first token through tanh to the head."""

    def __init__(self, width=64, depth=6, heads=4, classes=2):
        super().__init__()
        self.words, self.places = nn.Embedding(BYTES, width, padding_idx=0), nn.Embedding(64, width)
        self.segments, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(0.1)
        self.blocks = nn.Sequential(*[PostNormBlock(width, heads) for _ in range(depth)])
        self.pooler, self.head = nn.Linear(width, width), nn.Linear(width, classes)
        normal_(self)

    def forward(self, words):
        places = torch.arange(words.shape[1], device=words.device)
        x = self.words(words) + self.places(places) + self.segments(torch.zeros_like(words))
        x = self.blocks(self.dropout(self.norm(x)))
        return self.head(torch.tanh(self.pooler(x[:, 0])))


class GPT2(nn.Module):
    """Pre-norm blocks with a causal mask; what ends a branch is drawn of .02/√(2·depth); the head is the embedding."""

    def __init__(self, width=64, depth=6, heads=4):
        super().__init__()
        self.words, self.places = nn.Embedding(BYTES, width), nn.Embedding(64, width)
        blocks = [PreNormBlock(width, SelfAttention(width, heads, causal=True), eps=1e-5) for _ in range(depth)]
        self.blocks, self.norm = nn.Sequential(*blocks), nn.LayerNorm(width)
        self.head = nn.Linear(width, BYTES, bias=False)
        normal_(self)
        for block in blocks:
            for layer in (block.attention.out, block.mlp[2]):
                nn.init.normal_(layer.weight, std=0.02 / math.sqrt(2 * depth))
        self.head.weight = self.words.weight

    def forward(self, words):
        x = self.words(words) + self.places(torch.arange(words.shape[1], device=words.device))
        return self.head(self.norm(self.blocks(x)))


class RMSNorm(nn.Module):
    """x / √(mean x² + eps), scaled per channel (Zhang, Sennrich 2019)."""

    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class GatedMLP(nn.Module):
    """down(silu(gate(x)) · up(x)) (Shazeer 2020)."""

    def __init__(self, width, hidden):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Mixtral's layer: a router gives every token to two of the experts and weighs what they say."""

    def __init__(self, width, hidden, experts=4):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(GatedMLP(width, hidden) for _ in range(experts))

    def forward(self, x):
        weights, chosen = torch.softmax(self.router(x), dim=-1).topk(2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        total = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            share = (weights * (chosen == index)).sum(-1, keepdim=True)
            total = total + share * expert(x)
        return total


class RotaryBlock(nn.Module):
    """Llama's block: RMS norms, rotary attention with shared keys, and a gated MLP or experts."""

    def __init__(self, width, heads, groups, mlp):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.attention = SelfAttention(width, heads, causal=True, rotate=True, groups=groups, biases=False)
        self.mlp = mlp

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    """Llama, or Mixtral with ``experts``; normal weights of .02."""

    def __init__(self, width=64, depth=6, heads=4, groups=1, experts=0):
        super().__init__()
        self.words = nn.Embedding(BYTES, width)
        hidden = 8 * width // 3
        mlps = [Experts(width, hidden, experts) if experts else GatedMLP(width, hidden) for _ in range(depth)]
        self.blocks = nn.Sequential(*[RotaryBlock(width, heads, groups, mlp) for mlp in mlps])
        self.norm, self.head = RMSNorm(width), nn.Linear(width, BYTES, bias=False)
        normal_(self)

    def forward(self, words):
        return self.head(self.norm(self.blocks(self.words(words))))


class T5Block(nn.Module):
    """Pre-norm attention without scale (the law of the queries has it), over itself and over a memory."""

    def __init__(self, width, heads, *, decoder):
        super().__init__()
        options = {"biases": False, "scaled": False}
        self.norm1, self.attention = RMSNorm(width), SelfAttention(width, heads, causal=decoder, **options)
        self.norm2 = RMSNorm(width) if decoder else None
        self.cross = SelfAttention(width, heads, **options) if decoder else None
        self.norm3, self.mlp = RMSNorm(width), perceptron(width, 4 * width, nn.ReLU, biases=False)

    def forward(self, x, memory, bias):
        x = x + self.attention(self.norm1(x), bias=bias)
        if self.cross is not None:
            x = x + self.cross(self.norm2(x), memory)
        return x + self.mlp(self.norm3(x))


class T5(nn.Module):
    """Encoder and decoder with a table of biases by distance; Mesh TensorFlow's laws; tied head scaled by width^-½."""

    def __init__(self, width=64, depth=2, heads=4):
        super().__init__()
        self.words = nn.Embedding(BYTES, width)
        self.encoder = nn.ModuleList(T5Block(width, heads, decoder=False) for _ in range(depth))
        self.decoder = nn.ModuleList(T5Block(width, heads, decoder=True) for _ in range(depth))
        self.tables = nn.ModuleList(nn.Embedding(64, heads) for _ in range(2))
        self.norms = nn.ModuleList(RMSNorm(width) for _ in range(2))
        for block in (*self.encoder, *self.decoder):
            for attention in (part for part in (block.attention, block.cross) if part is not None):
                nn.init.normal_(attention.query.weight, std=(width * width // heads) ** -0.5)
                for layer in (attention.key, attention.value, attention.out):
                    nn.init.normal_(layer.weight, std=width**-0.5)
            nn.init.normal_(block.mlp[0].weight, std=width**-0.5)
            nn.init.normal_(block.mlp[2].weight, std=(4 * width) ** -0.5)
        for table in self.tables:
            nn.init.normal_(table.weight, std=width**-0.5)
        self.scale = width**-0.5

    def forward(self, words, capitals):
        memory = self._run(self.words(words), self.encoder, 0, None)
        memory = self.norms[0](memory)
        x = self.norms[1](self._run(self.words(capitals), self.decoder, 1, memory))
        return F.linear(x * self.scale, self.words.weight)

    def _run(self, x, blocks, side, memory):
        places = torch.arange(x.shape[1], device=x.device)
        bias = self.tables[side](places[:, None] - places + 32).permute(2, 0, 1)[None]
        for block in blocks:
            x = block(x, memory, bias)
        return x


class Selective(nn.Module):
    """Mamba's layer: a short convolution, then a linear recurrence whose steps depend on the input, and a gate."""

    def __init__(self, width, states=8, taps=4):
        super().__init__()
        inner, rank = 2 * width, max(1, width // 16)
        self.rank, self.states = rank, states
        self.enter, self.leave = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)
        self.convolution = nn.Conv1d(inner, inner, taps, groups=inner, padding=taps - 1)
        self.project, self.step = nn.Linear(inner, rank + 2 * states, bias=False), nn.Linear(rank, inner)
        self.decay = nn.Parameter(torch.log(torch.arange(1, states + 1.0)).repeat(inner, 1))
        self.through = nn.Parameter(torch.ones(inner))
        nn.init.uniform_(self.step.weight, -(rank**-0.5), rank**-0.5)
        pace = torch.exp(torch.rand(inner) * (math.log(0.1) - math.log(0.001)) + math.log(0.001)).clamp_min(1e-4)
        self.step.bias = nn.Parameter(pace + torch.log(-torch.expm1(-pace)))

    def forward(self, x):
        x, gate = self.enter(x).chunk(2, dim=-1)
        x = F.silu(self.convolution(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        rank, into, out = self.project(x).split([self.rank, self.states, self.states], dim=-1)
        pace = F.softplus(self.step(rank))[..., None]
        kept, added = torch.exp(-pace * torch.exp(self.decay)), pace * x[..., None] * into[:, :, None]
        state, outputs = torch.zeros_like(added[:, 0]), []
        for place in range(x.shape[1]):
            state = kept[:, place] * state + added[:, place]
            outputs.append((state * out[:, place, None]).sum(-1))
        return self.leave((torch.stack(outputs, dim=1) + self.through * x) * F.silu(gate))


class Mamba(nn.Module):
    """Residual selective layers behind RMS norms; what ends a branch is divided by √depth; tied head of .02."""

    def __init__(self, width=48, depth=3):
        super().__init__()
        self.words = nn.Embedding(BYTES, width)
        self.layers = nn.ModuleList(Selective(width) for _ in range(depth))
        self.norms = nn.ModuleList(RMSNorm(width) for _ in range(depth + 1))
        self.head = nn.Linear(width, BYTES, bias=False)
        nn.init.normal_(self.words.weight, std=0.02)
        for layer in self.layers:
            nn.init.kaiming_uniform_(layer.leave.weight, a=math.sqrt(5))
            layer.leave.weight.data /= math.sqrt(depth)
        self.head.weight = self.words.weight

    def forward(self, words):
        x = self.words(words)
        for layer, norm in zip(self.layers, self.norms):
            x = x + layer(norm(x))
        return self.head(self.norms[-1](x))


class ReZeroBlock(nn.Module):
    """x + α·attention(x), x + α·mlp(x) with α = 0 at the start and no norm."""

    def __init__(self, width, heads):
        super().__init__()
        self.attention, self.mlp = SelfAttention(width, heads, causal=True), perceptron(width, 4 * width)
        self.strength = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        x = x + self.strength * self.attention(x)
        return x + self.strength * self.mlp(x)


class ReZero(nn.Module):
    """A deep transformer that begins as the identity."""

    def __init__(self, width=64, depth=8, heads=4):
        super().__init__()
        self.words, self.places = nn.Embedding(BYTES, width), nn.Embedding(64, width)
        self.blocks = nn.Sequential(*[ReZeroBlock(width, heads) for _ in range(depth)])
        self.head = nn.Linear(width, BYTES)

    def forward(self, words):
        x = self.words(words) + self.places(torch.arange(words.shape[1], device=words.device))
        return self.head(self.blocks(x))


class EncoderDecoder(nn.Module):
    """`torch.nn.Transformer`, which draws its own weights by Glorot's law, with embeddings and a head."""

    def __init__(self, width=64, heads=4, depth=2):
        super().__init__()
        self.words, self.places = nn.Embedding(BYTES, width), nn.Embedding(64, width)
        self.transformer = nn.Transformer(width, heads, depth, depth, 4 * width, batch_first=True)
        self.head = nn.Linear(width, BYTES)
        self.width = width

    def embed(self, words):
        places = torch.arange(words.shape[1], device=words.device)
        return self.words(words) * math.sqrt(self.width) + self.places(places)

    def forward(self, words, capitals):
        mask = nn.Transformer.generate_square_subsequent_mask(capitals.shape[1])
        return self.head(self.transformer(self.embed(words), self.embed(capitals), tgt_mask=mask, tgt_is_causal=True))


def encoder_decoder():
    """The transformer of 2017: every matrix by Glorot's law, the embeddings too."""
    return xavier_(EncoderDecoder())


class TextTransformer(nn.Module):
    """`torch.nn.TransformerEncoder`, pre-norm, each matrix drawn by itself: as made, its layers are copies."""

    def __init__(self, width=64, heads=4, depth=4):
        super().__init__()
        self.words, self.places = nn.Embedding(BYTES, width), nn.Embedding(64, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)
        xavier_(self.encoder)

    def forward(self, words):
        x = self.words(words) + self.places(torch.arange(words.shape[1], device=words.device))
        return self.head(self.encoder(x).mean(1))


MEMBERS = (
    Member("BERT", "Devlin et al. 2019", Bert, labelled_text, cross_entropy),
    Member("GPT-2", "Radford et al. 2019", GPT2, text, next_word),
    Member("Llama", "Touvron et al. 2023", Llama, text, next_word),
    Member("Llama grouped", "Ainslie et al. 2023", lambda: Llama(groups=2), text, next_word),
    Member("Mixtral", "Jiang et al. 2024", lambda: Llama(depth=3, experts=4), text, next_word),
    Member("T5", "Raffel et al. 2020", T5, translation, next_word),
    Member("Mamba", "Gu, Dao 2023", Mamba, lambda n: text(n, 16), next_word),
    Member("ReZero", "Bachlechner et al. 2021", ReZero, text, next_word),
    Member("nn.Transformer", "Vaswani et al. 2017; torch", encoder_decoder, translation, next_word),
    Member("nn.TransformerEncoder", "Xiong et al. 2020; torch", TextTransformer, labelled_text, cross_entropy),
)
