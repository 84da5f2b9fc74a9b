"""``initscope injectivity``: thresholds of random layers, probabilities at given sizes, a verdict on a given layer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from initscope.cli._options import Seed, Whole
from initscope.cli._output import Format, emit, say, user_code
from initscope.cli._sources import parse_shape
from initscope.errors import InputError, check_count

__all__ = ["app"]

app = App(
    name="injectivity", help="When is a ReLU layer injective? Thresholds, probabilities, and a verdict with proof."
)


@app.command
def thresholds(*, format: Format = "table") -> None:
    """Expansivity thresholds of a random ReLU layer by every method, with error bars.

    Parameters
    ----------
    format
        table, json or csv.
    """
    from initscope.injectivity import thresholds as compute

    emit(compute(), format, title="Expansivity m/n above which a random ReLU layer is injective")


@app.command
def probability(
    *,
    outputs: Annotated[Whole, Parameter(name=["--outputs", "-m"])],
    inputs: Annotated[Whole, Parameter(name=["--inputs", "-n"])],
    samples: Whole | None = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Probability that a Gaussian ReLU layer of this size is injective: exact, simulated or asymptotic.

    Parameters
    ----------
    outputs
        Rows m of the weight matrix.
    inputs
        Columns n of the weight matrix.
    samples
        Simulate this many layers instead of the default for the size.
    seed
        Seed of the simulation.
    format
        table, json or csv.
    """
    from initscope.theory.injectivity import probability as compute
    from initscope.theory.injectivity.planning import LARGEST_INPUTS

    check_count("inputs", inputs, most=LARGEST_INPUTS, hint="the union bound is computed in whole numbers")
    check_count("outputs", outputs, most=50 * LARGEST_INPUTS, hint="with ten per input almost all are injective")
    emit(compute(outputs, inputs, samples=samples, seed=seed), format)


@app.command
def decide(
    model: str | None = None,
    *,
    weights: Path | None = None,
    layer: str | None = None,
    input_shape: str | None = None,
    budget: float = 60.0,
    seed: Seed = 0,
    stability: bool = False,
    format: Format = "table",
) -> None:
    """Decide whether one layer of a network, followed by ReLU, is injective, and prove it.

    Parameters
    ----------
    model
        package.module:factory, file.py:factory or an architecture string; not needed for a Linear layer in a file.
    weights
        State dict (read with weights_only=True), .npz or .npy file.
    layer
        Name of the layer, for example fc1.
    input_shape
        Shape of one input of the model, such as 3x64x64, for convolutions.
    budget
        Seconds to spend.
    seed
        Seed of the witness search.
    stability
        Also bound the stability of the inverse.
    format
        table, json or csv.
    """
    import sys
    from dataclasses import replace

    from initscope.injectivity import decide as run
    from initscope.injectivity import stability as bound_inverse
    from initscope.injectivity import verify
    from initscope.injectivity.layers import layer_from_file, layer_from_model

    if model is not None:
        from initscope.models import load_model

        shape = None if input_shape is None else parse_shape(input_shape)
        with user_code():
            loaded = load_model(model, weights=weights, input_shape=shape)
            weight, bias = layer_from_model(loaded, layer, shape)
    elif weights is not None:
        weight, bias = layer_from_file(weights, layer)
    else:
        raise InputError("nothing to decide: give a MODEL or --weights FILE (a state dict, .npz or .npy)")
    decision = run(weight, bias, budget=budget, seed=seed, progress=sys.stderr.isatty())
    if decision.injective is not None:
        say(f"proof verified: {'yes' if verify(weight, bias, decision) else 'NO'}")
    if stability:
        decision = replace(decision, stability=bound_inverse(weight, bias))
    emit(decision, format)
