"""`compare_initializations`: predictions for one configuration under several initializations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initscope.results import Result, make_axes
from initscope.scaling.initializations import INITIALIZATIONS, with_initialization
from initscope.scaling.recursion import Outlook, outlook
from initscope.scaling.transformer import Transformer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["InitializationComparison", "compare_initializations"]


@dataclass(frozen=True)
class InitializationComparison(Result):
    """Predictions (`Outlook`) for one configuration, by the name of the initialization."""

    outlooks: dict[str, Outlook]

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per initialization: residual stream at the end, attention, logits, loss; notes, if any."""
        result = []
        for name, prediction in self.outlooks.items():
            stream = [row for row in prediction.rows if row.kind != "logits"]
            attention = [row for row in prediction.rows if row.kind == "attention"]
            result.append({
                "initialization": name,
                "rms": stream[-1].rms / stream[0].rms,
                "growth": _without_rounding(prediction.growth),
                "token_cosine": _without_rounding(stream[-1].token_cosine),
                "cosine": stream[-1].cosine,
                "entropy": min(row.entropy for row in attention),
                "scores": max(row.scores for row in attention),
                "logits": prediction.logits,
                "loss": prediction.loss,
                "note": "; ".join(prediction.notes),
            })  # fmt: skip
        if not any(row["note"] for row in result):
            for row in result:
                del row["note"]
        return result

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the mean cosine of tokens against depth, one line per initialization."""
        ax = make_axes(ax)
        for name, prediction in self.outlooks.items():
            ax.plot([row.token_cosine for row in prediction.rows if row.kind != "logits"], label=name)
        ax.set_xlabel("attention and feed-forward layers")
        ax.set_ylabel("mean cosine of tokens")
        ax.legend()
        return ax


def _without_rounding(value: float) -> float:
    """Return 0 for values below the rounding error."""
    return 0.0 if abs(value) < 1e-9 else value


def compare_initializations(
    model: Transformer, tokens: int = 128, *, initializations: Sequence[str] | None = None, **options: Any
) -> InitializationComparison:
    """Compare one configuration under several initializations.

    Parameters
    ----------
    model : Transformer
        From `initscope.scaling.read`.
    tokens : int
        Length of the sequences.
    initializations : sequence of str, optional
        Names in `INITIALIZATIONS`. None: all; DeepNorm is left out for encoder-decoder models.
    options
        Options of `outlook`: ``ids``, ``heads``, ``seed``.

    Returns
    -------
    InitializationComparison

    Examples
    --------
    >>> from initscope.scaling import read
    >>> model = read({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "vocab_size": 100})
    >>> [row["initialization"] for row in compare_initializations(model, 8, initializations=["mup", "0.02"]).table()]
    ['mup', '0.02']
    """
    if initializations is None:
        initializations = [name for name in INITIALIZATIONS if not (model.decoder and name == "deepnorm")]
    variants = {name: with_initialization(model, name) for name in initializations}
    return InitializationComparison({name: outlook(variant, tokens, **options) for name, variant in variants.items()})
