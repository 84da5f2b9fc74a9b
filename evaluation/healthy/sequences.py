"""Language models, recurrent and convolutional sequence models, as their repositories write them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.programs import Healthy, Program
from evaluation.samples import blobs, grammar, tones


def token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), tokens.reshape(-1))


@dataclass
class GPTConfig:
    """Sizes of a small GPT."""

    block_size: int = 16
    vocab_size: int = 32
    n_layer: int = 3
    n_head: int = 4
    n_embd: int = 48
    dropout: float = 0.0
    bias: bool = False


class CausalSelfAttention(nn.Module):
    """Attention as in nanoGPT."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.n_head, self.n_embd = config.n_head, config.n_embd

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class GPTBlock(nn.Module):
    """Attention and perceptron as in nanoGPT."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd), nn.LayerNorm(config.n_embd)
        self.attn = CausalSelfAttention(config)
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x))))


class NanoGPT(nn.Module):
    """Tied embeddings, scaled residual projections."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.wte, self.wpe = (
            nn.Embedding(config.vocab_size, config.n_embd),
            nn.Embedding(config.block_size, config.n_embd),
        )
        self.h = nn.ModuleList(GPTBlock(config) for _ in range(config.n_layer))
        self.ln_f, self.lm_head = nn.LayerNorm(config.n_embd), nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * config.n_layer))
            elif parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, idx: Tensor) -> Tensor:
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class RMSNorm(nn.Module):
    """Division by the root mean square."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class TinyLlama(nn.Module):
    """RMSNorm, rotary positions, SwiGLU (as in llama2.c)."""

    def __init__(self, dim: int = 48, layers: int = 3, heads: int = 4) -> None:
        super().__init__()
        self.tok, self.out, self.heads = nn.Embedding(32, dim), nn.Linear(dim, 32, bias=False), heads
        self.layers = nn.ModuleList(
            nn.ModuleDict({
                "n1": RMSNorm(dim), "n2": RMSNorm(dim),
                "wqkv": nn.Linear(dim, 3 * dim, bias=False), "wo": nn.Linear(dim, dim, bias=False),
                "w1": nn.Linear(dim, 128, bias=False), "w2": nn.Linear(128, dim, bias=False),
                "w3": nn.Linear(dim, 128, bias=False),
            }) for _ in range(layers)
        )  # fmt: skip
        self.norm = RMSNorm(dim)
        angle = torch.arange(64)[:, None] / 10000 ** (torch.arange(0, dim // heads, 2) / (dim // heads))
        self.register_buffer("rotation", torch.polar(torch.ones_like(angle), angle), persistent=False)
        for layer in self.modules():
            if isinstance(layer, (nn.Linear, nn.Embedding)):
                nn.init.normal_(layer.weight, std=0.02)

    def rotate(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.rotation[: x.shape[1], None]).flatten(3)

    def forward(self, tokens: Tensor) -> Tensor:
        h = self.tok(tokens)
        b, t, d = h.shape
        for layer in self.layers:
            q, k, v = layer["wqkv"](layer["n1"](h)).view(b, t, 3, self.heads, -1).unbind(2)
            y = F.scaled_dot_product_attention(
                self.rotate(q).transpose(1, 2), self.rotate(k).transpose(1, 2), v.transpose(1, 2), is_causal=True
            )
            h = h + layer["wo"](y.transpose(1, 2).reshape(b, t, d))
            z = layer["n2"](h)
            h = h + layer["w2"](F.silu(layer["w1"](z)) * layer["w3"](z))
        return self.out(self.norm(h))


class MacaronDecoder(nn.Module):
    """Half-step perceptrons around attention (Lu et al. 2019)."""

    def __init__(self, dim: int = 48) -> None:
        super().__init__()
        self.embed, self.pos, self.head = nn.Embedding(32, dim), nn.Embedding(16, dim), nn.Linear(dim, 32)
        self.blocks = nn.ModuleList()
        for _ in range(2):
            ff = [nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 96), nn.SiLU(), nn.Linear(96, dim)) for _ in range(2)]
            attn = CausalSelfAttention(GPTConfig(n_embd=dim))
            self.blocks.append(nn.ModuleList([ff[0], nn.LayerNorm(dim), attn, ff[1], nn.LayerNorm(dim)]))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.pos(torch.arange(tokens.shape[1]))
        for first, norm, attn, second, last in self.blocks:
            x = x + 0.5 * first(x)
            x = x + attn(norm(x))
            x = last(x + 0.5 * second(x))
        return self.head(x)


class LSTMClassifier(nn.Module):
    """The sentiment classifier of tutorials."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 32)
        self.lstm = nn.LSTM(32, 48, num_layers=2, bidirectional=True, dropout=0.2, batch_first=True)
        self.dropout, self.fc = nn.Dropout(0.3), nn.Linear(96, 2)

    def forward(self, text: Tensor) -> Tensor:
        _, (hidden, _) = self.lstm(self.dropout(self.embedding(text)))
        return self.fc(self.dropout(torch.cat((hidden[-2], hidden[-1]), dim=1)))


class GRUClassifier(nn.Module):
    """The mean of the states of a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.gru, self.out = nn.Embedding(32, 24), nn.GRU(24, 48, batch_first=True), nn.Linear(48, 2)

    def forward(self, text: Tensor) -> Tensor:
        return self.out(self.gru(self.embed(text))[0].mean(1))


class CRNN(nn.Module):
    """Convolutions, then a recurrence over columns (Shi et al. 2016), with a class at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.cnn = nn.Sequential(
            *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1)),
            *(nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d((2, 1))),
        )
        self.rnn, self.fc = nn.LSTM(128, 32, bidirectional=True, batch_first=True), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.cnn(x).permute(0, 3, 1, 2).flatten(2)
        return self.fc(self.rnn(x)[0].mean(1))


class TemporalBlock(nn.Module):
    """Two dilated causal convolutions with weight norm (Bai et al. 2018)."""

    def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.pad = 2 * dilation
        self.c1 = norm(nn.Conv1d(inputs, outputs, 3, dilation=dilation))
        self.c2 = norm(nn.Conv1d(outputs, outputs, 3, dilation=dilation))
        self.down = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        y = F.dropout(F.relu(self.c1(F.pad(x, (self.pad, 0)))), 0.1, self.training)
        y = F.relu(self.c2(F.pad(y, (self.pad, 0))))
        return F.relu(y + (x if self.down is None else self.down(x)))


class TCN(nn.Module):
    """Blocks with growing dilation."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(TemporalBlock(1, 24, 1), TemporalBlock(24, 24, 2), TemporalBlock(24, 24, 4))
        self.linear = nn.Linear(24, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.net(x)[:, :, -1])


class WaveNet(nn.Module):
    """Gated dilated convolutions with skips; classes of the next value (van den Oord et al. 2016)."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.start = nn.Embedding(32, width)
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(4))
        self.residual = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(4))
        self.skip = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(4))
        self.end = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, 32, 1))

    def forward(self, tokens: Tensor) -> Tensor:
        x, total = self.start(tokens).transpose(1, 2), 0.0
        for index, (gate, residual, skip) in enumerate(zip(self.gates, self.residual, self.skip, strict=True)):
            a, b = gate(F.pad(x, (2**index, 0))).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            total = total + skip(y)
            x = x + residual(y)
        return self.end(total).transpose(1, 2)


class Encoder(nn.Module):
    """`nn.TransformerEncoder` with sine positions, as in PyTorch's tutorial."""

    def __init__(self, dim: int = 48) -> None:
        super().__init__()
        self.embed, self.dim = nn.Embedding(32, dim), dim
        layer = nn.TransformerEncoderLayer(dim, 4, 96, dropout=0.1, batch_first=True)
        self.encoder, self.fc = nn.TransformerEncoder(layer, 2), nn.Linear(dim, 2)
        angle = torch.arange(64)[:, None] * torch.exp(-math.log(10000.0) * torch.arange(0, dim, 2) / dim)
        self.register_buffer("pe", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))
        self.embed.weight.data.uniform_(-0.1, 0.1)
        self.fc.weight.data.uniform_(-0.1, 0.1)
        self.fc.bias.data.zero_()

    def forward(self, text: Tensor) -> Tensor:
        x = self.embed(text) * math.sqrt(self.dim) + self.pe[: text.shape[1]]
        return self.fc(self.encoder(x).mean(1))


class TextCNN(nn.Module):
    """Filters of three widths over word vectors (Kim 2014)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 32)
        self.convs = nn.ModuleList(nn.Conv1d(32, 24, k) for k in (3, 4, 5))
        self.fc = nn.Sequential(nn.Dropout(0.5), nn.Linear(72, 2))

    def forward(self, text: Tensor) -> Tensor:
        x = self.embed(text).transpose(1, 2)
        return self.fc(torch.cat([F.relu(conv(x)).max(2).values for conv in self.convs], 1))


TEXT, LABELLED = grammar(), grammar(target="class")
HEALTHY = (
    Healthy("nano_gpt", Program(lambda: NanoGPT(GPTConfig()), TEXT, token_loss, lr=3e-3, steps=100), "nanoGPT"),
    Healthy("tiny_llama", Program(TinyLlama, TEXT, token_loss, lr=3e-3, steps=100), "llama2.c"),
    Healthy("macaron_decoder", Program(MacaronDecoder, TEXT, token_loss, lr=3e-3, steps=100), "x-transformers"),
    Healthy("lstm_classifier", Program(LSTMClassifier, LABELLED, lr=3e-3, steps=100), "pytorch-sentiment-analysis"),
    Healthy("gru_classifier", Program(GRUClassifier, LABELLED, lr=3e-3, steps=100), "tutorials"),
    Healthy("crnn", Program(CRNN, blobs(), steps=100), "crnn.pytorch"),
    Healthy("tcn", Program(TCN, tones(), lr=3e-3, steps=100), "TCN"),
    Healthy("wavenet", Program(WaveNet, TEXT, token_loss, lr=3e-3, steps=100), "pytorch-wavenet"),
    Healthy("transformer_encoder", Program(Encoder, LABELLED, steps=100), "PyTorch tutorials"),
    Healthy("text_cnn", Program(TextCNN, LABELLED, lr=2e-3, steps=100), "cnn-text-classification"),
)
