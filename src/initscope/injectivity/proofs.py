"""`write_proof` and `read_proof`: a layer with its decision in a JSON file that `verify` can check.

Numbers round-trip exactly. The reader also accepts the output of ``initscope injectivity decide --format json``, which
lacks the layer.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from initscope._utils.files import check_memory, open_regular, reading, write_text
from initscope.errors import InputError, check_count
from initscope.injectivity._layer import Floats, as_layer
from initscope.injectivity.records import Certificate, Decision

__all__ = ["Proof", "read_proof", "write_proof"]

_HINT = "make it with: initscope injectivity decide … --proof FILE"
_A_BYTE = 40  # bytes of Python objects per byte of JSON, at most


class Proof(NamedTuple):
    """A decision and its layer, if the file holds it."""

    decision: Decision
    weight: Floats | None = None
    bias: Floats | None = None


def write_proof(path: str | os.PathLike[str], weight: Any, bias: Any, decision: Decision) -> None:
    """Write the layer and the decision with its proof to ``path``."""
    weight, bias = as_layer(weight, bias)
    layer = {"weight": weight.tolist(), "bias": None if bias is None else bias.tolist()}
    write_text(path, json.dumps({**decision.to_dict(), "layer": layer}) + "\n")


def read_proof(path: str | os.PathLike[str]) -> Proof:
    """Read what `write_proof` wrote, or a decision alone; damaged and foreign files raise `InputError`.

    The proof is not checked here: call `verify`.
    """
    with reading(Path(path), "a file with a decision", _HINT), open_regular(path) as file:
        check_memory(path, _A_BYTE * os.fstat(file.fileno()).st_size, _HINT)
        content = json.load(file)
        if not isinstance(content, dict) or not {"injective", "method", "inputs", "outputs"} <= set(content):
            raise InputError(f"{path} holds no decision; {_HINT}")
        decision = _decision(content)
        layer = content.get("layer")
        if layer is None:
            return Proof(decision)
        return Proof(decision, *as_layer(layer["weight"], layer["bias"]))


def _decision(content: dict[str, Any]) -> Decision:
    if content["injective"] not in (True, False, None):
        raise ValueError("injective")
    witness, certificate = content.get("witness"), content.get("certificate")
    return Decision(
        injective=content["injective"],
        method=str(content["method"]),
        inputs=check_count("inputs", content["inputs"]),
        outputs=check_count("outputs", content["outputs"]),
        witness=None if witness is None else _pair(witness),
        certificate=None if certificate is None else Certificate.from_dict(certificate),
    )


def _pair(witness: Any) -> tuple[Floats, Floats]:
    first, second = (np.array(point, dtype=np.float64) for point in witness)
    return first, second
