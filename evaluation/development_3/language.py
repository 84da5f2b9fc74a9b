"""Language models as their repositories write them: configurations, caches, losses in the call, adapters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import sentences
from evaluation.development_1.sequences import per_token


@dataclass
class ModelArgs:
    dim: int = 64
    n_layers: int = 3
    n_heads: int = 8
    n_kv_heads: int = 2
    vocab_size: int = 64
    multiple_of: int = 32
    norm_eps: float = 1e-5
    max_seq_len: int = 32


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        output = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return output.type_as(x) * self.weight


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim))
    freqs = torch.outer(torch.arange(end), freqs).float()
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_rotary_emb(xq, xk, freqs_cis):
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = freqs_cis[None, :, None, :]
    return (
        torch.view_as_real(xq_ * freqs_cis).flatten(3).type_as(xq),
        torch.view_as_real(xk_ * freqs_cis).flatten(3).type_as(xk),
    )


class KVCache(nn.Module):
    def __init__(self, batch, length, heads, dim):
        super().__init__()
        self.register_buffer("k", torch.zeros(batch, length, heads, dim), persistent=False)
        self.register_buffer("v", torch.zeros(batch, length, heads, dim), persistent=False)

    def update(self, start, k, v):
        end = start + k.shape[1]
        self.k[: len(k), start:end], self.v[: len(v), start:end] = k.detach(), v.detach()
        return self.k[: len(k), :end], self.v[: len(v), :end]


class GroupedQueryAttention(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.n_heads, self.n_kv, self.head_dim = args.n_heads, args.n_kv_heads, args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * self.head_dim, args.dim, bias=False)
        self.cache = None

    def forward(self, x, freqs_cis, mask, start_pos=0):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv, self.head_dim)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv, self.head_dim)
        xq, xk = apply_rotary_emb(xq, xk, freqs_cis)
        if self.cache is not None and not self.training:
            xk, xv = self.cache.update(start_pos, xk, xv)
        keys = xk.repeat_interleave(self.n_heads // self.n_kv, dim=2).transpose(1, 2)
        values = xv.repeat_interleave(self.n_heads // self.n_kv, dim=2).transpose(1, 2)
        scores = torch.matmul(xq.transpose(1, 2), keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        scores = F.softmax((scores + mask).float(), dim=-1).type_as(xq)
        return self.wo(torch.matmul(scores, values).transpose(1, 2).contiguous().view(bsz, seqlen, -1))


class FeedForward(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        hidden = int(2 * (4 * args.dim) / 3)
        hidden = args.multiple_of * ((hidden + args.multiple_of - 1) // args.multiple_of)
        self.w1, self.w3 = nn.Linear(args.dim, hidden, bias=False), nn.Linear(args.dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, args.dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class LlamaBlock(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.attention, self.feed_forward = GroupedQueryAttention(args), FeedForward(args)
        self.attention_norm = RMSNorm(args.dim, args.norm_eps)
        self.ffn_norm = RMSNorm(args.dim, args.norm_eps)

    def forward(self, x, freqs_cis, mask):
        h = x + self.attention(self.attention_norm(x), freqs_cis, mask)
        return h + self.feed_forward(self.ffn_norm(h))


class Llama(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.params, self.tok_embeddings = args, nn.Embedding(args.vocab_size, args.dim)
        self.layers = nn.ModuleList(LlamaBlock(args) for _ in range(args.n_layers))
        self.norm, self.output = RMSNorm(args.dim), nn.Linear(args.dim, args.vocab_size, bias=False)
        self.freqs_cis = precompute_freqs_cis(args.dim // args.n_heads, args.max_seq_len * 2)

    def forward(self, tokens):
        h, seqlen = self.tok_embeddings(tokens), tokens.shape[1]
        mask = torch.triu(torch.full((1, 1, seqlen, seqlen), float("-inf")), diagonal=1).type_as(h)
        for layer in self.layers:
            h = layer(h, self.freqs_cis[:seqlen], mask)
        return self.output(self.norm(h)).float()


@network(sentences(), loss=per_token, rate=3e-3)
def llama_with_grouped_queries() -> nn.Module:
    return Llama(ModelArgs())


@network(sentences(), loss=per_token, rate=3e-3, mode="eval")
def llama_with_a_cache_in_eval() -> nn.Module:
    args = ModelArgs(n_layers=2)
    model = Llama(args)
    for layer in model.layers:
        layer.attention.cache = KVCache(64, 32, args.n_kv_heads, args.dim // args.n_heads)
    return model


@dataclass
class GPTConfig:
    block_size: int = 32
    vocab_size: int = 64
    n_layer: int = 4
    n_head: int = 4
    n_embd: int = 64
    dropout: float = 0.1
    bias: bool = True


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.attn_dropout, self.resid_dropout = nn.Dropout(config.dropout), nn.Dropout(config.dropout)
        self.n_head, self.n_embd = config.n_head, config.n_embd
        self.register_buffer(
            "bias",
            torch.tril(torch.ones(config.block_size, config.block_size)).view(
                1, 1, config.block_size, config.block_size
            ),
        )

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k, q, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (k, q, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        y = self.attn_dropout(F.softmax(att, dim=-1)) @ v
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C)))


class GPTBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = (
            nn.LayerNorm(config.n_embd),
            CausalSelfAttention(config),
            nn.LayerNorm(config.n_embd),
        )
        self.mlp = nn.ModuleDict(
            {
                "c_fc": nn.Linear(config.n_embd, 4 * config.n_embd),
                "act": nn.GELU(),
                "c_proj": nn.Linear(4 * config.n_embd, config.n_embd),
                "dropout": nn.Dropout(config.dropout),
            }
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        m = self.mlp
        return x + m["dropout"](m["c_proj"](m["act"](m["c_fc"](self.ln_2(x)))))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(config.vocab_size, config.n_embd),
                "wpe": nn.Embedding(config.block_size, config.n_embd),
                "drop": nn.Dropout(config.dropout),
                "h": nn.ModuleList(GPTBlock(config) for _ in range(config.n_layer)),
                "ln_f": nn.LayerNorm(config.n_embd),
            }
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.transformer["wte"].weight = self.lm_head.weight
        self.apply(self._init_weights)
        for pn, p in self.named_parameters():
            if pn.endswith("c_proj.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, idx, targets=None):
        t = self.transformer
        x = t["drop"](t["wte"](idx) + t["wpe"](torch.arange(0, idx.size(1), dtype=torch.long)))
        for block in t["h"]:
            x = block(x)
        logits = self.lm_head(t["ln_f"](x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1), ignore_index=-1)
        return logits, loss


@network(sentences(), loss=lambda out, y: per_token(out[0], y), rate=3e-3)
def nano_gpt_that_returns_a_pair() -> nn.Module:
    return GPT(GPTConfig())


def _with_labels(count, generator):
    words, following = sentences()(count, generator)
    return {"idx": words, "targets": following}, following


@network(_with_labels, loss=lambda out, y: out[1], rate=3e-3)
def nano_gpt_with_its_loss_in_the_call() -> nn.Module:
    return GPT(GPTConfig(n_layer=2, dropout=0.0))


@dataclass
class CausalLMOutput:
    logits: torch.Tensor
    hidden_states: tuple
    past: list | None = None


@network(sentences(), loss=lambda out, y: per_token(out.logits, y), rate=3e-3)
def t5_bias_in_buckets() -> nn.Module:
    class Attention(nn.Module):
        def __init__(self, d=64, heads=4, bias=False):
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
            self.h, self.relative = heads, nn.Embedding(8, heads) if bias else None
            nn.init.normal_(self.q.weight, std=(d * (d // heads)) ** -0.5)
            for m in (self.k, self.v, self.o):
                nn.init.normal_(m.weight, std=d**-0.5)
            if bias:
                nn.init.normal_(self.relative.weight, std=d**-0.5)

        def bias(self, t):
            distance = torch.arange(t)[:, None] - torch.arange(t)[None]
            n = distance.clamp(min=0)
            bucket = torch.where(
                n < 4, n, (4 + (n.float().clamp(min=1) / 4).log() / math.log(8) * 4).long().clamp(max=7)
            )
            return self.relative(bucket).permute(2, 0, 1)[None].masked_fill((distance < 0)[None, None], -1e9)

        def forward(self, x, bias):
            b, t, d = x.shape
            q, k, v = (m(x).view(b, t, self.h, -1).transpose(1, 2) for m in (self.q, self.k, self.v))
            bias = self.bias(t) if bias is None else bias
            w = F.softmax(q @ k.transpose(3, 2) + bias, -1)  # no scale: it is in the start of q
            return self.o((w @ v).transpose(1, 2).reshape(b, t, d)), bias

    class T5(nn.Module):
        def __init__(self, d=64, depth=3):
            super().__init__()
            self.shared = nn.Embedding(64, d)
            self.attn = nn.ModuleList(Attention(d, bias=i == 0) for i in range(depth))
            self.norms = nn.ModuleList(RMSNorm(d, 1e-6) for _ in range(2 * depth + 1))
            self.wi, self.wo = (
                nn.ModuleList(nn.Linear(a, b, bias=False) for _ in range(depth)) for a, b in ((d, 4 * d), (4 * d, d))
            )
            self.lm_head = nn.Linear(d, 64, bias=False)

        def forward(self, input_ids):
            x, bias, states = self.shared(input_ids), None, []
            for i, attn in enumerate(self.attn):
                h, bias = attn(self.norms[2 * i](x), bias)
                x = x + h
                x = x + self.wo[i](F.relu(self.wi[i](self.norms[2 * i + 1](x))))
                states.append(x)
            return CausalLMOutput(self.lm_head(self.norms[-1](x)), tuple(states))

    return T5()


@network(sentences(), loss=lambda out, y: per_token(out[0], y), rate=3e-3)
def transformer_xl_with_memory() -> nn.Module:
    class XL(nn.Module):
        def __init__(self, d=48, heads=4, memory=8):
            super().__init__()
            self.emb, self.d, self.h = nn.Embedding(64, d), d, heads
            self.qkv = nn.ModuleList(nn.Linear(d, 3 * d, bias=False) for _ in range(2))
            self.r = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(2))
            self.o = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(2))
            self.u, self.v = nn.Parameter(torch.zeros(heads, d // heads)), nn.Parameter(torch.zeros(heads, d // heads))
            self.ln1, self.ln2 = (nn.ModuleList(nn.LayerNorm(d) for _ in range(2)) for _ in range(2))
            self.ff = nn.ModuleList(
                nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4 * d, d)) for _ in range(2)
            )
            self.out, self.mem_len = nn.Linear(d, 64), memory
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, std=0.02)

        def forward(self, ids, mems=None):
            x, b, t = self.emb(ids), *ids.shape
            mems = [x.new_zeros(b, self.mem_len, self.d)] * 2 if mems is None else mems
            total = t + self.mem_len
            place = torch.arange(total - 1, -1, -1.0)[:, None] / 10000 ** (torch.arange(0, self.d, 2) / self.d)
            sines, new = torch.cat([place.sin(), place.cos()], 1), []
            mask = torch.ones(t, total, dtype=torch.bool).triu(1 + self.mem_len)
            for i in range(2):
                new.append(x[:, -self.mem_len :].detach())
                q, k, v = self.qkv[i](torch.cat([mems[i], x], 1)).chunk(3, -1)
                q = q[:, -t:].view(b, t, self.h, -1)
                k, v = (y.view(b, total, self.h, -1) for y in (k, v))
                r = self.r[i](sines).view(total, self.h, -1)
                content = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
                place = torch.einsum("bihd,jhd->bhij", q + self.v, r)
                place = F.pad(place, (1, 0)).view(b, self.h, total + 1, t)[:, :, 1:].reshape(b, self.h, t, total)
                w = ((content + place) / (self.d // self.h) ** 0.5).masked_fill(mask, -1e30).softmax(-1)
                x = self.ln1[i](x + self.o[i](torch.einsum("bhij,bjhd->bihd", w, v).reshape(b, t, -1)))
                x = self.ln2[i](x + self.ff[i](x))
            return self.out(x), new

    return XL()


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r: int = 4, alpha: int = 8):
        super().__init__()
        self.base, self.scaling = base, alpha / r
        self.lora_A, self.lora_B = (
            nn.Linear(base.in_features, r, bias=False),
            nn.Linear(r, base.out_features, bias=False),
        )
        nn.init.kaiming_uniform_(self.lora_A.weight, a=math.sqrt(5))
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, x):
        return self.base(x) + self.scaling * self.lora_B(self.lora_A(x))


@network(sentences(), loss=lambda out, y: per_token(out[0], y), rate=1e-2)
def lora_on_a_frozen_gpt() -> nn.Module:
    model = GPT(GPTConfig(n_layer=2, dropout=0.0))
    model.requires_grad_(False)
    for block in model.transformer["h"]:
        block.attn.c_attn, block.mlp["c_fc"] = LoRALinear(block.attn.c_attn), LoRALinear(block.mlp["c_fc"])
    model.transformer["ln_f"].requires_grad_(True)
    return model


@network(sentences(), loss=lambda out, y: per_token(out, y), rate=1e-2)
def prompt_tuning_of_a_frozen_llama() -> nn.Module:
    class Prompted(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = Llama(ModelArgs(n_layers=2)).requires_grad_(False)
            self.prompt = nn.Parameter(self.base.tok_embeddings.weight[:4].detach().clone())

        def forward(self, tokens):
            h = torch.cat([self.prompt.expand(len(tokens), -1, -1), self.base.tok_embeddings(tokens)], 1)
            t = h.shape[1]
            mask = torch.triu(torch.full((1, 1, t, t), float("-inf")), 1)
            for layer in self.base.layers:
                h = layer(h, self.base.freqs_cis[:t], mask)
            return self.base.output(self.base.norm(h))[:, 4:]

    return Prompted()


@network(sentences(target="class"), rate=3e-3)
def bottleneck_adapters_on_a_frozen_encoder() -> nn.Module:
    class Adapter(nn.Module):
        def __init__(self, layer, d=48, r=8):
            super().__init__()
            self.layer, self.down, self.up = layer, nn.Linear(d, r), nn.Linear(r, d)
            nn.init.normal_(self.up.weight, std=1e-3)
            nn.init.zeros_(self.up.bias)

        def forward(self, x):
            x = self.layer(x)
            return x + self.up(F.gelu(self.down(x)))

    class Model(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.embed, self.pos = nn.Embedding(64, d), nn.Parameter(0.02 * torch.randn(1, 24, d))
            layers = [nn.TransformerEncoderLayer(d, 4, 96, batch_first=True, norm_first=True) for _ in range(3)]
            for part in (self.embed, *layers):
                part.requires_grad_(False)
            self.layers, self.pooler = nn.ModuleList(Adapter(layer) for layer in layers), nn.Linear(d, d)
            self.classifier = nn.Linear(d, 8)

        def forward(self, input_ids):
            x = self.embed(input_ids) + self.pos
            for layer in self.layers:
                x = layer(x)
            return self.classifier(torch.tanh(self.pooler(x.mean(1))))

    return Model()


@network(sentences(), loss=lambda out, y: per_token(out[0], y) + 0.01 * out[1], rate=3e-3)
def mixture_of_experts_with_balance_loss() -> nn.Module:
    class MoE(nn.Module):
        def __init__(self, d=48, experts=4):
            super().__init__()
            self.gate, self.k = nn.Linear(d, experts, bias=False), 2
            self.w1, self.w2 = (nn.Parameter(torch.empty(experts, a, b)) for a, b in ((d, 96), (96, d)))
            for w in (self.w1, self.w2):
                for one in w:
                    nn.init.kaiming_uniform_(one, a=math.sqrt(5))

        def forward(self, x):
            probabilities = F.softmax(self.gate(x), -1)
            top, chosen = probabilities.topk(self.k, -1)
            top = top / top.sum(-1, keepdim=True)
            weights = torch.zeros_like(probabilities).scatter(-1, chosen, top)
            h = torch.einsum("btd,edf->btef", x, self.w1)
            out = torch.einsum("btef,efd,bte->btd", F.silu(h), self.w2, weights)
            load = F.one_hot(chosen, probabilities.shape[-1]).float().sum(2).mean((0, 1))
            return out, (load * probabilities.mean((0, 1))).sum() * len(load)

    class Mixtral(nn.Module):
        def __init__(self, d=48):
            super().__init__()
            self.embed, self.pos = nn.Embedding(64, d), nn.Embedding(24, d)
            self.attn = nn.ModuleList(nn.MultiheadAttention(d, 4, batch_first=True, bias=False) for _ in range(2))
            self.n1, self.n2 = (nn.ModuleList(RMSNorm(d) for _ in range(2)) for _ in range(2))
            self.moe, self.norm, self.head = (
                nn.ModuleList(MoE(d) for _ in range(2)),
                RMSNorm(d),
                nn.Linear(d, 64, bias=False),
            )

        def forward(self, ids):
            t = ids.shape[1]
            x, aux = self.embed(ids) + self.pos.weight[:t], 0.0
            mask = nn.Transformer.generate_square_subsequent_mask(t)
            for attn, n1, n2, moe in zip(self.attn, self.n1, self.n2, self.moe, strict=True):
                h = n1(x)
                x = x + attn(h, h, h, attn_mask=mask, need_weights=False, is_causal=True)[0]
                h, loss = moe(n2(x))
                x, aux = x + h, aux + loss
            return self.head(self.norm(x)), aux

    return Mixtral()


@network(sentences(), loss=per_token, rate=5e-3)
def s4d_diagonal_with_fft() -> nn.Module:
    class S4D(nn.Module):
        def __init__(self, d, n=8):
            super().__init__()
            self.log_dt = nn.Parameter(torch.rand(d) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
            self.C = nn.Parameter(torch.view_as_real(torch.randn(d, n, dtype=torch.cfloat)))
            self.log_A_real = nn.Parameter(torch.log(0.5 * torch.ones(d, n)))
            self.A_imag, self.D = (
                nn.Parameter(math.pi * torch.arange(n).repeat(d, 1).float()),
                nn.Parameter(torch.randn(d)),
            )
            self.out = nn.Sequential(nn.Conv1d(d, 2 * d, 1), nn.GLU(dim=-2))

        def forward(self, u):
            L, dt = u.size(-1), torch.exp(self.log_dt)
            C, A = torch.view_as_complex(self.C), -torch.exp(self.log_A_real) + 1j * self.A_imag
            dtA = A * dt.unsqueeze(-1)
            K = dtA.unsqueeze(-1) * torch.arange(L)
            C = C * (torch.exp(dtA) - 1.0) / A
            k = 2 * torch.einsum("hn, hnl -> hl", C, torch.exp(K)).real
            y = torch.fft.irfft(torch.fft.rfft(u, n=2 * L) * torch.fft.rfft(k, n=2 * L), n=2 * L)[..., :L]
            return self.out(F.gelu(y + u * self.D.unsqueeze(-1)))

    class S4Model(nn.Module):
        def __init__(self, d=48, depth=3):
            super().__init__()
            self.encoder, self.decoder = nn.Embedding(64, d), nn.Linear(d, 64)
            self.layers, self.norms = (
                nn.ModuleList(S4D(d) for _ in range(depth)),
                nn.ModuleList(nn.LayerNorm(d) for _ in range(depth)),
            )

        def forward(self, x):
            x = self.encoder(x).transpose(-1, -2)
            for layer, norm in zip(self.layers, self.norms, strict=True):
                z = norm(x.transpose(-1, -2)).transpose(-1, -2)
                x = x + layer(z)
            return self.decoder(x.transpose(-1, -2))

    return S4Model()


@network(sentences(), loss=per_token, rate=5e-3)
def min_gru_by_logarithmic_scan() -> nn.Module:
    def g(x):
        return torch.where(x >= 0, x + 0.5, x.sigmoid())

    def log_g(x):
        return torch.where(x >= 0, (F.relu(x) + 0.5).log(), -F.softplus(-x))

    class MinGRU(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.to_hidden_and_gate = nn.Linear(d, 2 * d, bias=False)

        def forward(self, x):
            hidden, gate = self.to_hidden_and_gate(x).chunk(2, -1)
            coefficients, log_z = -F.softplus(gate), -F.softplus(-gate)
            star = coefficients.cumsum(1)
            return (star + (log_z + log_g(hidden) - star).logcumsumexp(1)).exp()

    class Model(nn.Module):
        def __init__(self, d=48, depth=2):
            super().__init__()
            self.token_emb, self.norm, self.to_logits = nn.Embedding(64, d), RMSNorm(d), nn.Linear(d, 64, bias=False)
            self.layers = nn.ModuleList(
                nn.ModuleList(
                    [
                        RMSNorm(d),
                        MinGRU(d),
                        RMSNorm(d),
                        nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)),
                    ]
                )
                for _ in range(depth)
            )

        def forward(self, x):
            x = self.token_emb(x)
            for n1, gru, n2, ff in self.layers:
                x = gru(n1(x)) + x
                x = ff(n2(x)) + x
            return self.to_logits(self.norm(x))

    return Model()


@network(sentences(), loss=lambda out, y: per_token(out["logits"], y), rate=3e-3, steps=15)
def gpt_of_fifteen_steps() -> nn.Module:
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = GPT(GPTConfig(n_layer=3, dropout=0.0))

        def forward(self, input_ids, **ignored):
            logits, _ = self.model(input_ids)
            return {"logits": logits, "last": logits[:, -1]}

    return Wrapped()


@network(sentences(target="tags"), loss=per_token, rate=5e-3)
def lstm_on_frozen_word_vectors() -> nn.Module:
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            vectors = torch.randn(64, 8) @ torch.randn(8, 32) / 8**0.5 * 0.4
            self.vectors = nn.Embedding.from_pretrained(vectors, freeze=True, padding_idx=0)
            self.lstm, self.crf_like = nn.LSTM(32, 32, batch_first=True, bidirectional=True), nn.Linear(64, 5)

        def forward(self, words):
            return self.crf_like(F.dropout(self.lstm(self.vectors(words))[0], 0.2, self.training))

    return Tagger()
