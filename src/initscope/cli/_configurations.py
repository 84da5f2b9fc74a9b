"""Output of ``initscope predict`` for a configuration: block by block, or several initializations side by side."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from initscope.cli._help import MODEL
from initscope.cli._options import Whole
from initscope.cli._output import Format, ask_of, emit, few_rows, print_sentence, print_table, say
from initscope.errors import InputError

if TYPE_CHECKING:
    from initscope.scaling import Outlook

__all__ = ["ConfigurationOptions", "change", "is_configuration", "show_configuration"]

_SHOWN = 10  # rows of a table for people; json and csv have all
_WORDS = {
    "rms": "root mean square of the residual stream",
    "token cosine": "between the tokens of a text",
    "cosine": "between two texts",
    "entropy": "of attention, 1: spread over all tokens",
}


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True, kw_only=True)
class ConfigurationOptions:
    """Options for a configuration instead of a model."""

    tokens: Whole | None = None
    """For a configuration: length of the sequences; default: 128."""
    set: Annotated[tuple[str, ...], Parameter(consume_multiple=False)] = field(default=())
    """For a configuration: NAME=VALUE to change an entry, such as hidden_size=8192; may be repeated."""
    compare: Annotated[bool, Parameter(negative="")] = False
    """For a configuration: compare several initializations (0.02, depth-scaled, mup, deepnorm, zero-outputs)."""


def is_configuration(model: str) -> bool:
    """Return whether MODEL is a Hugging Face configuration: a .json file, a folder with a config.json, or hf:NAME."""
    return model.startswith("hf:") or model.lower().endswith(".json") or (Path(model) / "config.json").is_file()


def show_configuration(
    model: str, options: ConfigurationOptions, format: Format, out: Path | None, text: str | None = None
) -> None:
    """Print what a configuration does at initialization."""
    from initscope.scaling import InitializationComparison, compare_initializations, outlook, read

    built = read(model, **dict(map(change, options.set)))
    tokens = 128 if options.tokens is None else options.tokens
    ids = None if text is None else _ids(text, tokens)
    result = compare_initializations(built, tokens, ids=ids) if options.compare else outlook(built, tokens, ids=ids)
    ask_of(model=model, data=text)
    if out is not None:  # before anything is printed: the reader may go away
        result.to_html(out)
        say(f"page: {out}")
    if isinstance(result, InitializationComparison):
        emit(result, format, title=f"{built.family}, {built.parameters / 1e9:.3g} billion weights, {tokens} tokens")
    else:
        _emit_blocks(result, format, out)


def _emit_blocks(result: Outlook, format: Format, out: Path | None) -> None:
    if format != "table":
        emit(result, format)
        return
    rows = [{key: value for key, value in row.items() if not key.endswith("_se")} for row in result.table()]
    size = f"{result.model.parameters / 1e9:.3g} billion weights"
    growth, logits = result.growth == result.growth, result.logits == result.logits  # NaN: not known
    conclusion = [
        *[f"the stream grows like depth^{result.growth:.2f}"] * growth,
        *[f"the loss at initialization is {result.loss:.4g}, with logits {result.logits:.3g}"] * logits,
    ]
    print_sentence(f"{result.model.family}, {size}, {result.tokens} tokens: {'; '.join(conclusion) or 'not covered'}.")
    print_table(few_rows(rows, _SHOWN), words=_WORDS)
    for note in result.notes:
        print_sentence(note)
    page = "" if out is not None else "; --out page.html writes a page"
    print_sentence(f"Next: --compare shows other initializations side by side{page}.")


def change(text: str) -> tuple[str, Any]:
    """Split NAME=VALUE into the name and the value, parsed as JSON."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"--set {text!r}: give NAME=VALUE, such as hidden_size=8192")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value


def _ids(text: str, tokens: int) -> Any:
    from initscope.data.text import text_pairs

    x, y = text_pairs(text, tokens=tokens, pairs=1)
    return [x[0], y[0]]
