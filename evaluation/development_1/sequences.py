"""Networks that read words, sounds and other sequences."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import sentences, waves


def per_token(out, targets):
    """Cross-entropy of every token."""
    return F.cross_entropy(out.flatten(0, -2), targets.flatten())


@network(sentences(target="tags"), loss=per_token, rate=5e-3)
def lstm_tagger() -> nn.Module:
    class LSTMTagger(nn.Module):
        def __init__(self, vocab=64, emb=48, hidden=64, tags=5):
            super().__init__()
            self.word_embeddings = nn.Embedding(vocab, emb, padding_idx=0)
            self.lstm = nn.LSTM(emb, hidden, num_layers=2, bidirectional=True, batch_first=True, dropout=0.2)
            self.hidden2tag = nn.Linear(2 * hidden, tags)

        def forward(self, sentence):
            out, _ = self.lstm(self.word_embeddings(sentence))
            return self.hidden2tag(out)

    return LSTMTagger()


@network(sentences(target="class"), rate=5e-3)
def gru_last_state() -> nn.Module:
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(64, 64)
            self.gru = nn.GRU(64, 96, batch_first=True)
            self.fc = nn.Linear(96, 8)

        def forward(self, x):
            _, hidden = self.gru(self.embedding(x))
            return self.fc(hidden[-1])

    return Classifier()


@network(sentences(), loss=per_token, rate=5e-3)
def char_rnn_cells() -> nn.Module:
    class CharRNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.cell, self.decoder = nn.Embedding(64, 64), nn.LSTMCell(64, 96), nn.Linear(96, 64)

        def forward(self, tokens):
            h = torch.zeros(len(tokens), 96)
            c = torch.zeros(len(tokens), 96)
            out = []
            for t in range(tokens.shape[1]):
                h, c = self.cell(self.encoder(tokens[:, t]), (h, c))
                out.append(self.decoder(h))
            return torch.stack(out, 1)

    return CharRNN()


@network(waves())
def tcn_weight_norm() -> nn.Module:
    wn = nn.utils.parametrizations.weight_norm

    class Chomp(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.size = size

        def forward(self, x):
            return x[:, :, : -self.size].contiguous()

    class Block(nn.Module):
        def __init__(self, before, after, dilation):
            super().__init__()
            pad = 2 * dilation
            self.net = nn.Sequential(
                wn(nn.Conv1d(before, after, 3, padding=pad, dilation=dilation)), Chomp(pad), nn.ReLU(), nn.Dropout(0.1),
                wn(nn.Conv1d(after, after, 3, padding=pad, dilation=dilation)), Chomp(pad), nn.ReLU(), nn.Dropout(0.1),
            )  # fmt: skip
            self.downsample = nn.Conv1d(before, after, 1) if before != after else None

        def forward(self, x):
            return F.relu(self.net(x) + (x if self.downsample is None else self.downsample(x)))

    class TCN(nn.Module):
        def __init__(self):
            super().__init__()
            self.tcn = nn.Sequential(Block(1, 32, 1), Block(32, 32, 2), Block(32, 32, 4), Block(32, 32, 8))
            self.linear = nn.Linear(32, 4)

        def forward(self, x):
            return self.linear(self.tcn(x)[:, :, -1])

    return TCN()


def _mu_law(count, generator):
    wave, _ = waves(128)(count, generator)
    wave = (wave[:, 0] / 2).clamp(-1, 1)
    codes = ((torch.sign(wave) * torch.log1p(255 * wave.abs()) / math.log(256) + 1) / 2 * 63).round().long()
    return codes[:, :-1], codes[:, 1:]


@network(_mu_law, loss=lambda out, t: F.cross_entropy(out, t))
def wavenet() -> nn.Module:
    class WaveNet(nn.Module):
        def __init__(self, channels=32, skip=64):
            super().__init__()
            self.embed = nn.Embedding(64, channels)
            self.filters, self.gates, self.res, self.skips = (nn.ModuleList() for _ in range(4))
            for i in range(8):
                d = 2 ** (i % 4)
                self.filters.append(nn.Conv1d(channels, channels, 2, dilation=d))
                self.gates.append(nn.Conv1d(channels, channels, 2, dilation=d))
                self.res.append(nn.Conv1d(channels, channels, 1))
                self.skips.append(nn.Conv1d(channels, skip, 1))
            self.end1, self.end2 = nn.Conv1d(skip, skip, 1), nn.Conv1d(skip, 64, 1)

        def forward(self, codes):
            x, total = self.embed(codes).transpose(1, 2), 0
            for i, (f, g, r, s) in enumerate(zip(self.filters, self.gates, self.res, self.skips, strict=True)):
                padded = F.pad(x, (2 ** (i % 4), 0))
                z = torch.tanh(f(padded)) * torch.sigmoid(g(padded))
                total = total + s(z)
                x = x + r(z)
            return self.end2(F.relu(self.end1(F.relu(total))))

    return WaveNet()


@network(sentences(), loss=lambda out, t: per_token(out[0], t))
def nano_gpt() -> nn.Module:
    class Block(nn.Module):
        def __init__(self, d, heads):
            super().__init__()
            self.ln_1, self.ln_2, self.heads = nn.LayerNorm(d), nn.LayerNorm(d), heads
            self.c_attn, self.c_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.mlp = nn.ModuleDict({"c_fc": nn.Linear(d, 4 * d), "c_proj": nn.Linear(4 * d, d)})

        def forward(self, x):
            B, T, C = x.shape
            q, k, v = self.c_attn(self.ln_1(x)).split(C, dim=2)
            q, k, v = (y.view(B, T, self.heads, C // self.heads).transpose(1, 2) for y in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1 if self.training else 0.0)
            x = x + self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
            return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self, d=96, depth=4):
            super().__init__()
            self.wte, self.wpe, self.drop = nn.Embedding(64, d), nn.Embedding(32, d), nn.Dropout(0.1)
            self.h, self.ln_f = nn.ModuleList(Block(d, 4) for _ in range(depth)), nn.LayerNorm(d)
            self.lm_head = nn.Linear(d, 64, bias=False)
            self.lm_head.weight = self.wte.weight
            self.apply(self._init)
            for name, p in self.named_parameters():
                if name.endswith("c_proj.weight"):
                    nn.init.normal_(p, std=0.02 / math.sqrt(2 * depth))

        def _init(self, m):
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)
            if isinstance(m, nn.Linear) and m.bias is not None:
                nn.init.zeros_(m.bias)

        def forward(self, idx, targets=None):
            x = self.drop(self.wte(idx) + self.wpe(torch.arange(idx.shape[1])))
            for block in self.h:
                x = block(x)
            logits = self.lm_head(self.ln_f(x))
            loss = None if targets is None else per_token(logits, targets)
            return logits, loss

    return GPT()


@network(sentences(), loss=per_token)
def llama_like() -> nn.Module:
    class RMSNorm(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(d))

        def forward(self, x):
            return self.weight * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x)

    class Layer(nn.Module):
        def __init__(self, d=96, heads=6, kv=2):
            super().__init__()
            self.heads, self.kv, self.size = heads, kv, d // heads
            self.wq, self.wk = nn.Linear(d, d, bias=False), nn.Linear(d, kv * self.size, bias=False)
            self.wv, self.wo = nn.Linear(d, kv * self.size, bias=False), nn.Linear(d, d, bias=False)
            self.w1, self.w2, self.w3 = (
                nn.Linear(d, 256, bias=False),
                nn.Linear(256, d, bias=False),
                nn.Linear(d, 256, bias=False),
            )
            self.attention_norm, self.ffn_norm = RMSNorm(d), RMSNorm(d)

        def rotate(self, x, freqs):
            pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * freqs[None, :, None]).flatten(3).type_as(x)

        def forward(self, x, freqs):
            B, T, _ = x.shape
            h = self.attention_norm(x)
            q = self.rotate(self.wq(h).view(B, T, self.heads, -1), freqs).transpose(1, 2)
            k = self.rotate(self.wk(h).view(B, T, self.kv, -1), freqs).transpose(1, 2)
            v = self.wv(h).view(B, T, self.kv, -1).transpose(1, 2)
            k, v = k.repeat_interleave(self.heads // self.kv, 1), v.repeat_interleave(self.heads // self.kv, 1)
            scores = q @ k.transpose(2, 3) / math.sqrt(self.size)
            scores = scores + torch.full((T, T), float("-inf")).triu(1)
            x = x + self.wo((F.softmax(scores.float(), -1).type_as(q) @ v).transpose(1, 2).reshape(B, T, -1))
            h = self.ffn_norm(x)
            return x + self.w2(F.silu(self.w1(h)) * self.w3(h))

    class Llama(nn.Module):
        def __init__(self, d=96, depth=4):
            super().__init__()
            self.tok_embeddings, self.layers = nn.Embedding(64, d), nn.ModuleList(Layer(d) for _ in range(depth))
            self.norm, self.output = RMSNorm(d), nn.Linear(d, 64, bias=False)
            angles = torch.outer(torch.arange(64.0), 1e4 ** -(torch.arange(0, 16, 2) / 16))
            self.freqs = torch.polar(torch.ones_like(angles), angles)

        def forward(self, tokens):
            h = self.tok_embeddings(tokens)
            for layer in self.layers:
                h = layer(h, self.freqs[: tokens.shape[1]])
            return self.output(self.norm(h)).float()

    return Llama()


class PositionalEncoding(nn.Module):
    def __init__(self, d, longest=200):
        super().__init__()
        position = torch.arange(longest).unsqueeze(1)
        div = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        pe = torch.zeros(1, longest, d)
        pe[0, :, 0::2], pe[0, :, 1::2] = torch.sin(position * div), torch.cos(position * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


@network(sentences(target="class"))
def torch_encoder_classifier() -> nn.Module:
    class Net(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.d, self.embedding, self.pos = d, nn.Embedding(64, d), PositionalEncoding(d)
            layer = nn.TransformerEncoderLayer(d, 4, 128, 0.1, batch_first=True)
            self.encoder, self.fc = nn.TransformerEncoder(layer, 2), nn.Linear(d, 8)
            nn.init.uniform_(self.embedding.weight, -0.1, 0.1)

        def forward(self, src):
            mask = src == 0
            x = self.pos(self.embedding(src) * math.sqrt(self.d))
            return self.fc(self.encoder(x, src_key_padding_mask=mask).mean(dim=1))

    return Net()


def _translation(count, generator):
    source, _ = sentences(12)(count, generator)
    target = (source.flip(1) + 7) % 64
    return {"src": source, "tgt": torch.cat([torch.zeros(count, 1).long(), target[:, :-1]], 1)}, target


@network(_translation, loss=per_token)
def torch_seq2seq() -> nn.Module:
    class Seq2Seq(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.src_emb, self.tgt_emb, self.pos = nn.Embedding(64, d), nn.Embedding(64, d), PositionalEncoding(d)
            self.transformer = nn.Transformer(d, 4, 2, 2, 128, 0.1, batch_first=True)
            self.generator = nn.Linear(d, 64)
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.xavier_uniform_(p)

        def forward(self, src, tgt):
            mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
            out = self.transformer(self.pos(8 * self.src_emb(src)), self.pos(8 * self.tgt_emb(tgt)), tgt_mask=mask)
            return self.generator(out)

    return Seq2Seq()


@network(_translation, loss=per_token, rate=5e-3)
def gru_attention_seq2seq() -> nn.Module:
    class Net(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.source, self.target = nn.Embedding(64, d), nn.Embedding(64, d)
            self.encoder, self.decoder = nn.GRU(d, d, batch_first=True, bidirectional=True), nn.GRUCell(3 * d, d)
            self.bridge, self.w, self.u, self.v = (
                nn.Linear(2 * d, d),
                nn.Linear(2 * d, d),
                nn.Linear(d, d),
                nn.Linear(d, 1),
            )
            self.out = nn.Linear(3 * d, 64)

        def forward(self, src, tgt):
            memory, last = self.encoder(self.source(src))
            state, out = torch.tanh(self.bridge(torch.cat([last[0], last[1]], -1))), []
            for t in range(tgt.shape[1]):
                weights = self.v(torch.tanh(self.w(memory) + self.u(state)[:, None])).softmax(1)
                context = (weights * memory).sum(1)
                state = self.decoder(torch.cat([self.target(tgt[:, t]), context], -1), state)
                out.append(self.out(torch.cat([state, context], -1)))
            return torch.stack(out, 1)

    return Net()


@network(lambda n, g: (lambda x, t: ((x, (x != 0).long()), t))(*sentences(target="class")(n, g)))
def bert_with_mask() -> nn.Module:
    class Bert(nn.Module):
        def __init__(self, d=64):
            super().__init__()
            self.word, self.position, self.norm = nn.Embedding(64, d), nn.Embedding(64, d), nn.LayerNorm(d)
            self.layers = nn.ModuleList(
                nn.ModuleDict({
                    "q": nn.Linear(d, d), "k": nn.Linear(d, d), "v": nn.Linear(d, d), "o": nn.Linear(d, d),
                    "up": nn.Linear(d, 4 * d), "down": nn.Linear(4 * d, d),
                    "n1": nn.LayerNorm(d), "n2": nn.LayerNorm(d),
                }) for _ in range(3)
            )  # fmt: skip
            self.pooler, self.classifier = nn.Linear(d, d), nn.Linear(d, 8)
            for m in self.modules():
                if isinstance(m, (nn.Linear, nn.Embedding)):
                    nn.init.normal_(m.weight, std=0.02)

        def forward(self, input_ids, attention_mask):
            x = self.norm(self.word(input_ids) + self.position(torch.arange(input_ids.shape[1])))
            mask = (1.0 - attention_mask[:, None, None].float()) * torch.finfo(x.dtype).min
            for m in self.layers:
                q, k, v = (m[n](x).unflatten(-1, (4, -1)).transpose(1, 2) for n in "qkv")
                weights = F.dropout(torch.softmax(q @ k.mT / 4.0 + mask, -1), 0.1, self.training)
                x = m["n1"](x + m["o"]((weights @ v).transpose(1, 2).flatten(2)))
                x = m["n2"](x + m["down"](F.gelu(m["up"](x))))
            return self.classifier(torch.tanh(self.pooler(x[:, 0])))

    return Bert()
