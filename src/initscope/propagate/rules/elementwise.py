"""Activations: the dual for a Gaussian [Daniely2016]_, samples of one unit for other inputs."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from initscope.geometry import weakest
from initscope.graph import ActivationLayer, activation_of
from initscope.propagate import loops
from initscope.propagate.context import Context
from initscope.propagate.distributions import ActivatedUnits, KnownMeans
from initscope.propagate.draws import sampled
from initscope.propagate.duals import transformed
from initscope.propagate.origins.elementwise import Activations
from initscope.propagate.registry import rule
from initscope.propagate.rules.batch_norm import from_batch_gram
from initscope.propagate.rules.gates import known
from initscope.propagate.rules.merging import stacked
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.moment_maps import MapSums, MomentMaps
from initscope.theory._fast import as_numpy
from initscope.theory.activations import Activation, activation
from initscope.theory.activations._closed import RandomSlopes

__all__ = ["apply_activation", "elementwise"]


@rule(ActivationLayer, reads=("distribution",), fixed=True)
def elementwise(module: nn.Module, state: MomentMaps, context: Context) -> MomentMaps:
    """σ on every unit: the dual of the Gaussian before it."""
    sigma = activation_of(module)
    if sigma is None:
        raise NotCovered("its slopes differ from channel to channel")
    return apply_activation(sigma, state, context)


def _randomly_sloped(sigma: RandomSlopes, state: MomentMaps) -> MomentMaps:
    """Apply new random slopes to every value; second moments are known, but not the distribution of a unit."""
    if not state.gaussian:
        raise NotCovered("it draws a new slope for every value, and its input is not Gaussian")
    moments = sigma.transform(state.kxx, state.kyy, state.d)
    means = KnownMeans(sigma.mean(state.kxx), sigma.mean(state.kyy))
    return state.after(moments, distribution=means, fresh=frozenset(), origin=Activations(state, sigma))


def apply_activation(sigma: Activation, state: MomentMaps, context: Context) -> MomentMaps:
    """Apply the dual to Gaussian units; units that are a function of these use the composition, others are sampled."""
    if sigma.name == "identity":
        return state
    if isinstance(sigma, RandomSlopes):
        return _randomly_sloped(sigma, state)
    if state.gaussian:
        return _dual(sigma, state)
    units = state.distribution
    if units.activation is not None:
        return apply_activation(_composed(sigma, units.activation), units.before, context)  # type: ignore[attr-defined]
    gram = units.activated_gram(sigma)
    if gram is not None:
        return from_batch_gram(state, gram)
    if units.stacked_parts:
        return stacked([apply_activation(sigma, part, context) for part in units.stacked_parts])
    inner = state.expression()
    if inner is not None:
        before, function = inner
        return apply_activation(known(lambda x: sigma(function(x))), before, context)
    return sampled(state, ActivatedUnits(state, sigma), context)


def _dual(sigma: Activation, state: MomentMaps) -> MomentMaps:
    """Return second moments of σ of Gaussian units."""
    fused = loops.large_loops(state.kxx, state.kyy, state.d) if sigma.name == "relu" else None
    summed = None
    if fused is not None:
        summed = MapSums.of_arrays(*fused.rectified(*map(as_numpy, (state.kxx, state.kyy, state.d)), axes=2))
    return state.after(
        transformed(sigma, state.kxx, state.kyy, state.d) if summed is None else (summed.kxx, summed.kyy, summed.d),
        distribution=ActivatedUnits(state, sigma),
        fresh=frozenset(),
        origin=Activations(state, sigma),
        status=weakest(state.status, sigma.method),
        summed=summed,
    )


def _composed(outer: Activation, inner: Activation) -> Activation:
    """Return the composition: an activation of an activation is one activation of the Gaussian."""
    if outer.name == inner.name == "relu":
        return outer
    return replace(activation(lambda x: outer(inner(x))), name=f"{outer.name}({inner.name})")
