"""Every family against networks that `transformers` draws from the same configuration, block by block."""

import math

import numpy as np
import pytest
import torch

from initscope.errors import InputError
from initscope.scaling import outlook, read

transformers = pytest.importorskip("transformers")

TOKENS, NETWORKS = 24, 6
PLAIN = {
    "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512, "vocab_size": 1000,
    "initializer_range": 0.05,
}  # fmt: skip
GROUPED = PLAIN | {"num_key_value_heads": 2, "head_dim": 64}
PAIR = {
    "d_model": 256, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 512, "decoder_ffn_dim": 512, "vocab_size": 1000, "init_std": 0.05,
    "max_position_embeddings": 64, "pad_token_id": 0, "eos_token_id": 2,
}  # fmt: skip
T5 = {"d_model": 256, "num_layers": 1, "num_decoder_layers": 2, "num_heads": 4, "d_kv": 64, "d_ff": 512}
CASES = {
    "LlamaConfig": PLAIN,
    "Qwen3Config": GROUPED,
    "MixtralConfig": GROUPED | {"num_local_experts": 8, "num_experts_per_tok": 2},
    "GemmaConfig": GROUPED,
    "Gemma2Config": GROUPED | {"query_pre_attn_scalar": 64},
    "PhiConfig": PLAIN,
    "GPTNeoXConfig": PLAIN,
    "OPTConfig": {
        "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 512, "vocab_size": 1000,
        "init_std": 0.05, "word_embed_proj_dim": 256,
    },
    "BertConfig": PLAIN,
    "T5Config": T5 | {"vocab_size": 1000},
    "MT5Config": T5 | {"vocab_size": 1000},
    "BartConfig": PAIR,
    "MarianConfig": PAIR | {"scale_embedding": True, "activation_function": "swish"},
    "PegasusConfig": PAIR | {"scale_embedding": True},
}  # fmt: skip
BLOCKS = ("DecoderLayer", "EncoderLayer", "T5Block", "MT5Block", "BertLayer", "GPTNeoXLayer")


def drawn(configuration, ids, kind, seed):
    """Size, cosine of tokens and cosine of the pair behind every block of one network, and of its logits."""
    torch.manual_seed(seed)
    network = getattr(transformers, kind).from_config(configuration).eval()
    seen = []

    def look(module, inputs, output):
        seen.append(geometry(output[0] if isinstance(output, tuple) else output))

    for module in network.modules():
        if type(module).__name__.endswith(BLOCKS):
            module.register_forward_hook(look)
    with torch.no_grad():
        more = {"decoder_input_ids": ids} if kind.endswith("Seq2SeqLM") else {}
        logits = network(input_ids=ids, **more).logits
    return np.array([*seen, geometry(logits)])


def geometry(values):
    values = values.double()
    units = torch.nn.functional.normalize(values[0], dim=-1)
    tokens = float(((units @ units.T).sum() - TOKENS) / (TOKENS * (TOKENS - 1)))
    pair = float((values[0] * values[1]).sum() / (values[0].norm() * values[1].norm()))
    return float(values[0].square().mean().sqrt()), tokens, pair


@pytest.mark.parametrize("name", CASES)
def test_drawn_models(name):
    """Six networks of width 256: sizes within 3 %, cosines within .02, beside 4 standard errors.

    A gain, a norm or a mask that is wrong moves sizes by 10 % or cosines by .1 and more, what is left of a word in the
    logits of a head that is the embedding 6 % (Gemma). Sizes behind norms are 1 and say nothing; BERT's head has a
    layer of its own, of which only the size is told.
    """
    configuration = getattr(transformers, name)(**CASES[name])
    model = read(configuration.to_dict())
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(3, 1000, (2, TOKENS), generator=generator)
    ids[1, ::2] = ids[0, ::2]
    told = outlook(model, ids=ids.tolist(), heads=128)
    rows = [row for row in told.rows if row.kind in ("feed-forward", "logits")]
    kind = "MaskedLM" if name == "BertConfig" else "Seq2SeqLM" if model.decoder else "CausalLM"
    networks = np.stack([drawn(configuration, ids, f"AutoModelFor{kind}", seed) for seed in range(NETWORKS)])
    mean, error = networks.mean(axis=0), networks.std(axis=0, ddof=1) / math.sqrt(NETWORKS)
    assert len(rows) == len(mean)
    for row, (rms, tokens, pair), (rms_error, tokens_error, pair_error) in zip(rows, mean, error, strict=True):
        if model.order == "pre" or row.kind == "logits":
            assert abs(row.rms - rms) < 4 * rms_error + 0.03 * rms, row.layer
        if row.kind == "logits" and model.head_layer:
            continue
        assert abs(row.token_cosine - tokens) < 4 * math.hypot(tokens_error, row.token_cosine_se) + 0.02, row.layer
        assert abs(row.cosine - pair) < 4 * math.hypot(pair_error, row.cosine_se) + 0.02, row.layer


def test_rows_of_two_stacks_have_their_names():
    told = outlook(read(T5 | {"model_type": "t5", "vocab_size": 90}), 8)
    assert [row.layer for row in told.rows] == [
        "embedding", "encoder.0.attention", "encoder.0.feed-forward", "decoder.0.attention", "decoder.0.cross",
        "decoder.0.feed-forward", "decoder.1.attention", "decoder.1.cross", "decoder.1.feed-forward", "logits",
    ]  # fmt: skip
    assert told.model.deepened(2).decoder == 4
    assert told.model.parameters == 256 * (8 * 256 * 3 - 256 * 4 + 3 * 2 * 512) + 2 * 90 * 256 - 90 * 256


@pytest.mark.parametrize(
    ("configuration", "told"),
    [
        (PAIR | {"model_type": "bart", "decoder_ffn_dim": 100}, "only if encoder and decoder have the same heads"),
        (PLAIN | {"model_type": "opt", "word_embed_proj_dim": 32}, "supported only with norms before"),
        ({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}}, "unsupported model_type"),
        ({"model_type": "llava", "text_config": PLAIN | {"model_type": "llama"}}, "give its text_config"),
        ({"model_type": "falcon"}, "unsupported model_type"),
        (T5 | {"model_type": "t5", "vocab_size": 90, "num_decoder_layers": -1}, "decoder = -1"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_told(configuration, told):
    with pytest.raises(InputError, match=told):
        read(configuration)
