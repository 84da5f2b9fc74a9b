"""GPT-2 small, 124 million weights, predicted and run: needs `transformers`."""

from __future__ import annotations

from functools import partial

import torch
from measuring import Row, against_peer


def gpt2() -> list[Row]:
    """`predict` of 8 pairs of 128 tokens against a bare forward pass of the 16 sequences: at most two of them."""
    import transformers

    import initscope

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(0, 50257, (8, 128), generator=generator)
    y = x.clone()
    y[:, ::2] = torch.randint(0, 50257, (8, 64), generator=generator)
    rows = []
    for name in ("GPT2Model", "GPT2LMHeadModel"):
        model = getattr(transformers, name)(transformers.GPT2Config()).eval()
        with torch.no_grad():
            ours, forward = partial(initscope.predict, model, x, y), partial(model, torch.cat([x, y]))
            rows.append(against_peer(f"{name}, 8 pairs of 128 tokens", ours, "forward", forward, "≥ 0.5"))
    return rows
