"""``initscope injectivity``: thresholds and probabilities of random layers, decisions with proofs, verification."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from initscope.cli._help import OUTPUT, WORK, examples
from initscope.cli._options import Seed, Whole
from initscope.cli._output import Format, ask_of, emit, say, user_code
from initscope.cli._sources import parse_shape
from initscope.errors import InputError, check_count
from initscope.results import Result, counted

if TYPE_CHECKING:
    from initscope.injectivity._layer import Floats

__all__ = ["app"]

app = App(
    name="injectivity",
    help="Decide whether a ReLU layer is injective, with proof; thresholds and probabilities for random layers.",
    help_epilogue=examples("injectivity"),
    group_parameters=WORK,
)


@app.command(help_epilogue=examples("injectivity thresholds"))
def thresholds(*, format: Format = "table") -> None:
    """Show the expansivity thresholds of a random ReLU layer by every method, with error bars.

    Parameters
    ----------
    format
        table, json or csv.
    """
    from initscope.injectivity import thresholds as compute

    emit(compute(), format, title="Expansivity m/n above which a random ReLU layer is injective")


@app.command(help_epilogue=examples("injectivity probability"))
def probability(
    *,
    outputs: Annotated[Whole, Parameter(name=["--outputs", "-m"])],
    inputs: Annotated[Whole, Parameter(name=["--inputs", "-n"])],
    samples: Whole | None = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Compute the probability that a Gaussian ReLU layer of this size is injective: exact, simulated or asymptotic.

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
    ask_of(seed=seed)
    size = f"{counted(outputs, 'output')} on {counted(inputs, 'input')}"
    title = f"Probability that a random ReLU layer of {size} is injective"
    emit(compute(outputs, inputs, samples=samples, seed=seed), format, title=title)


@app.command(help_epilogue=examples("injectivity decide"))
def decide(
    model: str | None = None,
    *,
    weights: Path | None = None,
    layer: str | None = None,
    input_shape: str | None = None,
    budget: float = 60.0,
    seed: Seed = 0,
    stability: bool = False,
    proof: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
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
    proof
        Write the layer and the proof to this file, for: initscope injectivity verify FILE.
    format
        table, json or csv.
    """
    from dataclasses import replace

    from initscope.injectivity import decide as run, stability as bound_inverse, verify as holds, write_proof

    layer_given = _layer(model, weights, layer, input_shape)
    if layer_given is None:
        raise InputError("nothing to decide: give a MODEL or --weights FILE (a state dict, .npz or .npy)")
    weight, bias = layer_given
    ask_of(model=model, weights=weights and str(weights), seed=seed)
    decision = run(weight, bias, budget=budget, seed=seed)
    if decision.injective is not None:
        say(f"proof verified: {'yes' if holds(weight, bias, decision) else 'NO'}")
    if proof is not None:
        write_proof(proof, weight, bias, decision)
        say(f"proof: {proof}")
    if stability:
        decision = replace(decision, stability=bound_inverse(weight, bias))
    emit(decision, format)


@dataclass(frozen=True)
class Verification(Result):
    """Whether the proof in a file holds."""

    holds: bool
    claim: str
    inputs: int
    outputs: int
    layer: str


@app.command(help_epilogue=examples("injectivity verify"))
def verify(
    file: Path,
    model: str | None = None,
    *,
    weights: Path | None = None,
    layer: str | None = None,
    input_shape: str | None = None,
    format: Format = "table",
) -> None:
    """Check the proof in FILE again, by code that shares nothing with the search for it; exit 1 if it does not hold.

    Parameters
    ----------
    file
        What decide --proof wrote, or what decide --format json printed (then name the layer).
    model
        Check it for this layer instead of the one in the file: as in decide.
    weights
        As in decide.
    layer
        As in decide.
    input_shape
        As in decide.
    format
        table, json or csv.
    """
    import sys

    from initscope.injectivity import read_proof, verify as holds

    proof = read_proof(file)
    ask_of(model=model, weights=weights and str(weights))
    given = _layer(model, weights, layer, input_shape)
    if given is None:
        if proof.weight is None:
            raise InputError(f"{file} holds no layer; give a MODEL or --weights FILE, or write it by decide --proof")
        given = proof.weight, proof.bias
        source = "the one in the file"
    else:
        source = "the one given"
    decision = proof.decision
    claim = {True: "injective", False: "not injective", None: "undecided"}[decision.injective]
    proved = holds(*given, decision)
    outputs, inputs = given[0].shape
    emit(Verification(proved, claim, inputs, outputs, source), format, title=f"{file}: the proof of {claim!r}")
    if not proved:
        say("the proof does NOT hold for this layer")
        sys.exit(1)


def _layer(
    model: str | None, weights: Path | None, layer: str | None, input_shape: str | None
) -> tuple[Floats, Floats | None] | None:
    """Weights and bias that the options name; None if they name none."""
    from initscope.injectivity.layers import layer_from_file, layer_from_model

    if model is not None:
        from initscope.models import load_model

        shape = None if input_shape is None else parse_shape(input_shape)
        with user_code():
            loaded = load_model(model, weights=weights, input_shape=shape)
            return layer_from_model(loaded, layer, shape)
    return None if weights is None else layer_from_file(weights, layer)
