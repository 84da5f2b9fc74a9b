"""`compare_starts`: one configuration under several initialisations, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initscope.results import Result, make_axes
from initscope.scaling.recursion import Outlook, outlook
from initscope.scaling.starts import STARTS, with_start
from initscope.scaling.transformer import Transformer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["StartComparison", "compare_starts"]


@dataclass(frozen=True)
class StartComparison(Result):
    """Outlooks of one configuration, by the name of the start."""

    outlooks: dict[str, Outlook]

    def table(self) -> list[dict[str, Any]]:
        """One dict per start: the stream and its tokens at the end, attention, logits, loss; notes, if any."""
        result = []
        for name, one in self.outlooks.items():
            stream = [row for row in one.rows if row.kind != "logits"]
            attention = [row for row in one.rows if row.kind == "attention"]
            result.append({
                "start": name,
                "rms": stream[-1].rms / stream[0].rms,
                "growth": _without_rounding(one.growth),
                "token_cosine": _without_rounding(stream[-1].token_cosine),
                "cosine": stream[-1].cosine,
                "entropy": min(row.entropy for row in attention),
                "scores": max(row.scores for row in attention),
                "logits": one.logits,
                "loss": one.loss,
                "note": "; ".join(one.notes),
            })  # fmt: skip
        if not any(row["note"] for row in result):
            for row in result:
                del row["note"]
        return result

    def plot(self, ax: Axes | None = None) -> Axes:
        """Cosine of tokens against depth, one line for each start."""
        ax = make_axes(ax)
        for name, one in self.outlooks.items():
            ax.plot([row.token_cosine for row in one.rows if row.kind != "logits"], label=name)
        ax.set_xlabel("attention and feed-forward layers")
        ax.set_ylabel("mean cosine of tokens")
        ax.legend()
        return ax


def _without_rounding(value: float) -> float:
    """0 for what is 0 but for rounding."""
    return 0.0 if abs(value) < 1e-9 else value


def compare_starts(
    model: Transformer, tokens: int = 128, *, starts: Sequence[str] | None = None, **options: Any
) -> StartComparison:
    """One configuration under several initialisations; ``options`` as of `outlook`.

    ``starts`` are names of `STARTS`. None: all, without DeepNorm where there is a decoder behind an encoder.

    Examples
    --------
    >>> from initscope.scaling import read
    >>> model = read({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "vocab_size": 100})
    >>> [row["start"] for row in compare_starts(model, 8, starts=["configuration", "zero-outputs"]).table()]
    ['configuration', 'zero-outputs']
    """
    if starts is None:
        starts = [name for name in STARTS if not (model.decoder and name == "deepnorm")]
    return StartComparison({name: outlook(with_start(model, name), tokens, **options) for name in starts})
