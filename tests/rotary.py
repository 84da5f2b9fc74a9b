"""Rotations of queries and keys by their positions, as models write them."""

import torch


def rotated(x, base=10.0):
    """``x [..., tokens, channels]`` turned by angles token/base^(2i/channels)."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2])[:, None] / base ** (torch.arange(half) / half)
    cos, sin = (torch.cat([f(angle), f(angle)], dim=-1) for f in (torch.cos, torch.sin))
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sin
