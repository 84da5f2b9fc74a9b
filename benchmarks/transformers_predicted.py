"""Fourteen models of `transformers`, predicted and measured, block by block: run it by hand where it is installed.

Prints for every model the share of rows by rule, the largest errors at the ends of blocks, and the times.
``python benchmarks/transformers_predicted.py [name …]``
"""

from __future__ import annotations

import re
import sys
import time
from typing import Any

import numpy as np
import torch
import transformers as hf

import initscope

SIZES: dict[str, Any] = {
    "hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 512, "vocab_size": 600,
    "initializer_range": 0.06,
}  # fmt: skip
GROUPED = SIZES | {"num_key_value_heads": 2}
EXPERTS: dict[str, Any] = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 256}
MODELS: dict[str, Any] = {
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED)),
    "mistral": lambda: hf.MistralModel(hf.MistralConfig(**GROUPED)),
    "qwen2": lambda: hf.Qwen2Model(hf.Qwen2Config(**GROUPED)),
    "qwen3": lambda: hf.Qwen3Model(hf.Qwen3Config(**GROUPED, head_dim=64)),
    "gpt2": lambda: hf.GPT2Model(
        hf.GPT2Config(vocab_size=600, n_embd=256, n_layer=3, n_head=4, n_positions=64, initializer_range=0.06)
    ),
    "gpt-neox": lambda: hf.GPTNeoXModel(hf.GPTNeoXConfig(**SIZES)),
    "bert": lambda: hf.BertModel(hf.BertConfig(**SIZES)),
    "roberta": lambda: hf.RobertaModel(hf.RobertaConfig(**SIZES)),
    "vit": lambda: hf.ViTModel(
        hf.ViTConfig(**{k: v for k, v in SIZES.items() if k != "vocab_size"}, image_size=32, patch_size=8)
    ),
    "t5": lambda: hf.T5Model(hf.T5Config(vocab_size=600, d_model=256, d_ff=512, num_layers=3, num_heads=4, d_kv=64)),
    "mixtral": lambda: hf.MixtralModel(hf.MixtralConfig(**GROUPED, num_local_experts=4)),
    "qwen2-moe": lambda: hf.Qwen2MoeModel(hf.Qwen2MoeConfig(**GROUPED, **EXPERTS, shared_expert_intermediate_size=256)),
    "olmoe": lambda: hf.OlmoeModel(hf.OlmoeConfig(**GROUPED, num_experts=8, num_experts_per_tok=2, eos_token_id=1)),
    "gpt2-tied": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=600, n_embd=256, n_layer=3, n_head=4, n_positions=64, initializer_range=0.06)
    ),
}
BLOCK = re.compile(r"(^|\.)(add( \(\d+\))?|LayerNorm|lm_head)$")


def inputs(name: str) -> tuple[Any, Any]:
    """Pairs whose second half of tokens, every second one, is another."""
    generator = torch.Generator().manual_seed(1)
    if name == "vit":
        x, noise = torch.randn(2, 4, 3, 32, 32, generator=generator)
        return x, x + noise
    x = torch.randint(2, 600, (4, 16), generator=generator)
    y = x.clone()
    y[:, ::2] = torch.randint(2, 600, (4, 8), generator=generator)
    if name == "t5":
        return {"input_ids": x, "decoder_input_ids": x.flip(1)}, {"input_ids": y, "decoder_input_ids": y.flip(1)}
    return x, y


def compare(name: str) -> str:
    """One line."""
    torch.manual_seed(1234)
    model = MODELS[name]().eval()
    x, y = inputs(name)
    start = time.process_time()
    predicted = initscope.predict(model, x, y)
    middle = time.process_time()
    measured = initscope.measure(model, x, y, draws=8, seed=77)
    end = time.process_time()
    known = [row for row in predicted.rows if row.status != "not covered"]
    ruled = [row for row in known if "networks" not in row.note]
    # The sums of a block have all channels; those inside of a norm, its mean square and epsilon, have one.
    blocks = [
        i
        for i, row in enumerate(predicted.rows)
        if BLOCK.search(row.layer)
        and len(row.shape) == 2
        and row.shape[-1] >= 256
        and row.status != "not covered"
        and np.isfinite(measured.rms_ratio[i]).all()  # of tokens that are folded with the samples nothing is measured
    ]
    size = np.abs(predicted.rms_ratio.mean(axis=1) / measured.rms_ratio.mean(axis=1) - 1)[blocks]
    pair = np.abs(predicted.cosine.mean(axis=1) - measured.cosine.mean(axis=1))[blocks]
    pair -= 3 * np.hypot(measured.mean_cosine_se, predicted.cosine_se.mean(axis=1))[blocks]
    own = np.abs(predicted.tokens.cosine - measured.tokens.cosine)[blocks]
    own -= 3 * np.hypot(measured.tokens.cosine_se, predicted.tokens.cosine_se)[blocks]
    return (
        f"{name:10} by rule {len(ruled) / len(known):4.0%} ({len(known)} rows), {len(blocks)} ends of branches: "
        f"size {size.max():.1%}, cosine {pair.max():+.3f}, tokens {np.nanmax(own):+.3f} beyond 3 errors; "
        f"predicted in {middle - start:.1f} s, measured in {end - middle:.1f} s"
    )


if __name__ == "__main__":
    for chosen in sys.argv[1:] or MODELS:
        print(compare(chosen), flush=True)
