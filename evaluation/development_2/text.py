"""Networks of words: language models without softmax attention, shared blocks, taggers, recommenders of sequences."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import sentences
from evaluation.development_1.sequences import per_token
from evaluation.development_2.vision_transformers import Block


@network(sentences(), loss=per_token)
def gpt_with_alibi_and_tied_head() -> nn.Module:
    class Layer(nn.Module):
        def __init__(self, d, heads):
            super().__init__()
            self.ln1, self.ln2, self.heads = nn.LayerNorm(d), nn.LayerNorm(d), heads
            self.key, self.query, self.value, self.proj = (nn.Linear(d, d) for _ in range(4))
            self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Dropout(0.1))
            self.register_buffer("slopes", 2.0 ** -(8.0 * torch.arange(1, heads + 1) / heads))

        def forward(self, x):
            B, T, C = x.shape
            h = self.ln1(x)
            q, k, v = (f(h).view(B, T, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
            far = torch.arange(T)[None] - torch.arange(T)[:, None]
            att = q @ k.transpose(-2, -1) / math.sqrt(C / self.heads) + self.slopes[:, None, None] * far
            att = att.masked_fill(far > 0, float("-inf")).softmax(-1)
            x = x + self.proj((att @ v).transpose(1, 2).reshape(B, T, C))
            return x + self.mlp(self.ln2(x))

    class GPT(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.wte, self.drop = nn.Embedding(64, d), nn.Dropout(0.1)
            self.h, self.ln_f = nn.ModuleList(Layer(d, 4) for _ in range(3)), nn.LayerNorm(d)
            self.lm_head = nn.Linear(d, 64, bias=False)
            self.lm_head.weight = self.wte.weight
            self.apply(self._init)

        @staticmethod
        def _init(m):
            if isinstance(m, nn.Linear | nn.Embedding):
                nn.init.normal_(m.weight, std=0.02)
            if isinstance(m, nn.Linear) and m.bias is not None:
                nn.init.zeros_(m.bias)

        def forward(self, idx):
            x = self.drop(self.wte(idx))
            for layer in self.h:
                x = layer(x)
            return self.lm_head(self.ln_f(x))

    return GPT()


@network(sentences(), loss=per_token)
def rwkv_like() -> nn.Module:
    def shift(x):
        return F.pad(x, (0, 0, 1, -1))

    class TimeMix(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.decay = nn.Parameter(torch.linspace(-5, 3, d))
            self.first = nn.Parameter(torch.full((d,), math.log(0.3)))
            self.mix = nn.Parameter(torch.linspace(0, 1, d).repeat(3, 1))
            self.key, self.value, self.receptance, self.output = (nn.Linear(d, d, bias=False) for _ in range(4))

        def forward(self, x):
            xx = shift(x)
            k, v, r = (f(x * m + xx * (1 - m)) for f, m in
                       zip((self.key, self.value, self.receptance), self.mix, strict=True))  # fmt: skip
            w, k = -self.decay.exp(), k.clamp(max=20)
            a = b = torch.zeros_like(k[:, 0])
            outs = []
            for t in range(x.shape[1]):
                e = torch.exp(self.first + k[:, t])
                outs.append((a + e * v[:, t]) / (b + e))
                a, b = w.exp() * a + k[:, t].exp() * v[:, t], w.exp() * b + k[:, t].exp()
            return self.output(torch.sigmoid(r) * torch.stack(outs, 1))

    class ChannelMix(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.mix = nn.Parameter(torch.linspace(0, 1, d))
            self.key, self.value = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)
            self.receptance = nn.Linear(d, d, bias=False)

        def forward(self, x):
            x = x * self.mix + shift(x) * (1 - self.mix)
            return torch.sigmoid(self.receptance(x)) * self.value(torch.relu(self.key(x)) ** 2)

    class RWKV(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.emb, self.ln0, self.ln_out = nn.Embedding(64, d), nn.LayerNorm(d), nn.LayerNorm(d)
            nn.init.uniform_(self.emb.weight, -1e-4, 1e-4)
            self.blocks = nn.ModuleList(
                nn.ModuleList([nn.LayerNorm(d), TimeMix(d), nn.LayerNorm(d), ChannelMix(d)]) for _ in range(2)
            )
            self.head = nn.Linear(d, 64, bias=False)

        def forward(self, idx):
            x = self.ln0(self.emb(idx))
            for ln1, att, ln2, ffn in self.blocks:
                x = x + att(ln1(x))
                x = x + ffn(ln2(x))
            return self.head(self.ln_out(x))

    return RWKV()


@network(sentences(), loss=per_token)
def retnet_like() -> nn.Module:
    class Retention(nn.Module):
        def __init__(self, d, heads=4):
            super().__init__()
            self.heads, self.q, self.k, self.v = heads, *(nn.Linear(d, d, bias=False) for _ in range(3))
            self.g, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
            self.group_norm = nn.GroupNorm(heads, d)
            self.register_buffer("gamma", 1 - torch.exp(torch.linspace(math.log(1 / 8), math.log(1 / 64), heads)))
            for m in (self.q, self.k, self.v, self.g):
                nn.init.xavier_uniform_(m.weight, gain=2**-2.5)

        def forward(self, x):
            B, T, C = x.shape
            q, k, v = (f(x).view(B, T, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
            n = torch.arange(T)
            far = (n[:, None] - n[None]).float()
            decay = torch.where(far >= 0, self.gamma[:, None, None] ** far.clamp(min=0), 0.0)
            y = (q @ k.transpose(-1, -2) * (C // self.heads) ** -0.5 * decay) @ v
            y = self.group_norm(y.transpose(1, 2).reshape(B * T, C)).view(B, T, C)
            return self.o(F.silu(self.g(x)) * y)

    class RetNet(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.embed = nn.Embedding(64, d)
            nn.init.normal_(self.embed.weight, std=d**-0.5)
            self.layers = nn.ModuleList(
                nn.ModuleList([nn.LayerNorm(d), Retention(d), nn.LayerNorm(d),
                               nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))]) for _ in range(2)
            )  # fmt: skip
            self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, 64, bias=False)

        def forward(self, idx):
            x = self.embed(idx) * math.sqrt(self.embed.embedding_dim)
            for ln1, ret, ln2, ffn in self.layers:
                x = x + ret(ln1(x))
                x = x + ffn(ln2(x))
            return self.head(self.norm(x))

    return RetNet()


class Selective(nn.Module):
    """The block of Mamba, its scan as a loop."""

    def __init__(self, d, state=8, rank=4):
        super().__init__()
        e = 2 * d
        self.rank, self.state = rank, state
        self.in_proj, self.out_proj = nn.Linear(d, 2 * e, bias=False), nn.Linear(e, d, bias=False)
        self.conv1d = nn.Conv1d(e, e, 4, groups=e, padding=3)
        self.x_proj, self.dt_proj = nn.Linear(e, rank + 2 * state, bias=False), nn.Linear(rank, e)
        nn.init.uniform_(self.dt_proj.weight, -(rank**-0.5), rank**-0.5)
        dt = torch.exp(torch.rand(e) * (math.log(0.1) - math.log(0.001)) + math.log(0.001)).clamp(min=1e-4)
        with torch.no_grad():
            self.dt_proj.bias.copy_(dt + torch.log(-torch.expm1(-dt)))
        self.A_log = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(e, 1))
        self.D = nn.Parameter(torch.ones(e))

    def forward(self, x):
        u, z = self.in_proj(x).chunk(2, dim=-1)
        u = F.silu(self.conv1d(u.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        dt, B, C = torch.split(self.x_proj(u), [self.rank, self.state, self.state], dim=-1)
        dt = F.softplus(self.dt_proj(dt))
        A = torch.exp(dt[..., None] * -torch.exp(self.A_log))
        Bu = dt[..., None] * B[:, :, None, :] * u[..., None]
        h, ys = torch.zeros_like(Bu[:, 0]), []
        for t in range(x.shape[1]):
            h = A[:, t] * h + Bu[:, t]
            ys.append((h * C[:, t, None]).sum(-1))
        y = torch.stack(ys, 1) + u * self.D
        return self.out_proj(y * F.silu(z))


@network(sentences(), loss=per_token, rate=3e-3)
def mamba_like() -> nn.Module:
    class RMSNorm(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(d))

        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight

    class Mamba(nn.Module):
        def __init__(self, d=32):
            super().__init__()
            self.embedding = nn.Embedding(64, d)
            self.layers = nn.ModuleList(nn.ModuleList([RMSNorm(d), Selective(d)]) for _ in range(2))
            self.norm_f, self.lm_head = RMSNorm(d), nn.Linear(d, 64, bias=False)
            nn.init.normal_(self.embedding.weight, std=0.02)
            self.lm_head.weight = self.embedding.weight

        def forward(self, ids):
            x = self.embedding(ids)
            for norm, mixer in self.layers:
                x = x + mixer(norm(x))
            return self.lm_head(self.norm_f(x))

    return Mamba()


@network(sentences(), loss=per_token, rate=5e-3)
def awd_lstm_tied() -> nn.Module:
    class AWD(nn.Module):
        def __init__(self, d=48, h=96):
            super().__init__()
            self.encoder = nn.Embedding(64, d)
            self.encoder.weight.data.uniform_(-0.1, 0.1)
            self.rnns = nn.ModuleList([nn.LSTM(d, h, batch_first=True), nn.LSTM(h, d, batch_first=True)])
            self.decoder = nn.Linear(d, 64)
            self.decoder.weight = self.encoder.weight
            nn.init.zeros_(self.decoder.bias)

        def locked(self, x, p):
            if not self.training:
                return x
            mask = torch.bernoulli(torch.full_like(x[:, :1], 1 - p)) / (1 - p)
            return x * mask

        def forward(self, ids):
            x = self.locked(self.encoder(ids), 0.2)
            for rnn in self.rnns:
                x = self.locked(rnn(x)[0], 0.2)
            return self.decoder(x)

    return AWD()


@network(sentences(target="class"))
def albert_one_block_many_times() -> nn.Module:
    class Albert(nn.Module):
        def __init__(self, d=64, small=16, depth=6):
            super().__init__()
            self.depth = depth
            self.word, self.pos, self.up = nn.Embedding(64, small), nn.Embedding(24, small), nn.Linear(small, d)
            self.norm, self.layer = nn.LayerNorm(small), Block(d, 4)
            self.pooler, self.classifier = nn.Linear(d, d), nn.Linear(d, 8)
            for m in self.modules():
                if isinstance(m, nn.Linear | nn.Embedding):
                    nn.init.normal_(m.weight, std=0.02)

        def forward(self, ids):
            x = self.up(self.norm(self.word(ids) + self.pos(torch.arange(ids.shape[1]))))
            for _ in range(self.depth):
                x = self.layer(x)
            return self.classifier(torch.tanh(self.pooler(x.mean(1))))

    return Albert()


def _masked_words(count, generator):
    text = sentences(24, 60)(count, generator)[0] + 3
    lengths = torch.randint(12, 25, (count,), generator=generator)
    padding = torch.arange(24)[None] >= lengths[:, None]
    hidden = (torch.rand(text.shape, generator=generator) < 0.15) & ~padding
    hidden[:, 0] = True
    ids = text.masked_fill(hidden, 2).masked_fill(padding, 0)
    return {"input_ids": ids, "attention_mask": (~padding).long()}, text.masked_fill(~hidden, -100)


@network(_masked_words, loss=lambda out, t: F.cross_entropy(out.view(-1, 64), t.view(-1), ignore_index=-100), rate=3e-3)
def masked_language_model_padded() -> nn.Module:
    class MLM(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.tok, self.pos = nn.Embedding(64, d, padding_idx=0), nn.Embedding(24, d)
            self.norm, self.drop = nn.LayerNorm(d, eps=1e-12), nn.Dropout(0.1)
            layer = nn.TransformerEncoderLayer(d, 4, 2 * d, 0.1, activation="gelu", batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.LayerNorm(d), nn.Linear(d, 64))

        def forward(self, input_ids, attention_mask):
            x = self.drop(self.norm(self.tok(input_ids) + self.pos(torch.arange(input_ids.size(1))[None])))
            return self.head(self.encoder(x, src_key_padding_mask=attention_mask == 0))

    return MLM()


def _histories(count, generator):
    items = sentences(16, 40)(count, generator)[0] + 1
    lengths = torch.randint(4, 17, (count,), generator=generator)
    items = items.masked_fill(torch.arange(16)[None] < 16 - lengths[:, None], 0)
    return items[:, :-1], items[:, 1:]


@network(_histories, loss=lambda out, t: F.cross_entropy(out.reshape(-1, 41), t.reshape(-1), ignore_index=0))
def sasrec_with_left_padding() -> nn.Module:
    class SASRec(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.item_emb, self.pos_emb = nn.Embedding(41, d, padding_idx=0), nn.Embedding(16, d)
            self.attn = nn.ModuleList(nn.MultiheadAttention(d, 1, 0.2, batch_first=True) for _ in range(2))
            self.norms = nn.ModuleList(nn.LayerNorm(d, eps=1e-8) for _ in range(5))
            self.ffn = nn.ModuleList(nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d)) for _ in range(2))
            nn.init.xavier_normal_(self.item_emb.weight.data)
            nn.init.xavier_normal_(self.pos_emb.weight.data)

        def forward(self, seq):
            x = self.item_emb(seq) * self.item_emb.embedding_dim**0.5 + self.pos_emb(torch.arange(seq.shape[1]))
            keep = (seq != 0)[..., None].float()
            x = x * keep
            mask = torch.ones(seq.shape[1], seq.shape[1], dtype=torch.bool).triu(1)
            for i in range(2):
                q = self.norms[2 * i](x)
                x = q + self.attn[i](q, x, x, attn_mask=mask, need_weights=False)[0]
                x = self.norms[2 * i + 1](x)
                x = (x + self.ffn[i](x)) * keep
            return self.norms[4](x) @ self.item_emb.weight.t()

    return SASRec()


def _skip_grams(count, generator):
    center = torch.randint(50, (count,), generator=generator)
    context = (center + torch.randint(1, 4, (count,), generator=generator)) % 50
    negative = torch.randint(50, (count, 5), generator=generator)
    return (center, context, negative), torch.zeros(count)


@network(_skip_grams, loss=lambda out, _: -(F.logsigmoid(out[0]) + F.logsigmoid(-out[1]).sum(1)).mean(), rate=2e-2)
def word2vec_negative_sampling() -> nn.Module:
    class SkipGram(nn.Module):
        def __init__(self, n=50, d=32):
            super().__init__()
            self.u, self.v = nn.Embedding(n, d), nn.Embedding(n, d)
            self.u.weight.data.uniform_(-0.5 / d, 0.5 / d)
            self.v.weight.data.zero_()

        def forward(self, center, context, negative):
            u = self.u(center)
            return (u * self.v(context)).sum(1), torch.bmm(self.v(negative), u.unsqueeze(2)).squeeze(2)

    return SkipGram()
