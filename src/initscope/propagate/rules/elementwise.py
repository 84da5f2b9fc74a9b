"""Activations: the dual of a Gaussian [Daniely2016]_, samples of one unit where the input is not Gaussian."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from initscope.geometry import weakest
from initscope.graph import ActivationLayer, activation_of
from initscope.propagate import loops
from initscope.propagate.distributions import ActivatedUnits, KnownMeans, StackedUnits
from initscope.propagate.draws import sampled
from initscope.propagate.duals import transformed
from initscope.propagate.moments import InputValues, MapSums, MomentMaps, NotCovered, State
from initscope.propagate.origins import Activations
from initscope.propagate.registry import Context, rule
from initscope.propagate.rules.batch import normalised_activation
from initscope.propagate.rules.gates import expression, known
from initscope.propagate.rules.merging import stacked
from initscope.theory._fast import as_numpy
from initscope.theory.activations import Activation, activation
from initscope.theory.activations._closed import RandomSlopes

__all__ = ["apply_activation", "elementwise"]


@rule(ActivationLayer, reads=("distribution",))
def elementwise(module: nn.Module, state: State, context: Context) -> State:
    """σ on every unit: the dual of the Gaussian before it."""
    if isinstance(state, InputValues):
        return state.run(module)
    sigma = activation_of(module)
    if sigma is None:
        raise NotCovered("its slopes differ from channel to channel")
    return apply_activation(sigma, state, context)


def _randomly_sloped(sigma: RandomSlopes, state: MomentMaps) -> MomentMaps:
    """Slopes drawn anew for every value: second moments go on, the law of a unit does not."""
    if not state.gaussian:
        raise NotCovered("its slopes are drawn anew for every value, and its input is not Gaussian")
    kxx, kyy, d = sigma.transform(state.kxx, state.kyy, state.d)
    means = KnownMeans(sigma.mean(state.kxx), sigma.mean(state.kyy))
    return state.after(kxx=kxx, kyy=kyy, d=d, distribution=means, fresh=frozenset(), origin=Activations(state, sigma))


def apply_activation(sigma: Activation, state: MomentMaps, context: Context) -> MomentMaps:
    """The dual, allowed on a Gaussian state only; other laws are sampled, unit by unit."""
    if sigma.name == "identity":
        return state
    if isinstance(sigma, RandomSlopes):
        return _randomly_sloped(sigma, state)
    if isinstance(state.distribution, ActivatedUnits) and state.distribution.before.gaussian:
        return apply_activation(_composed(sigma, state.distribution.sigma), state.distribution.before, context)
    exact = normalised_activation(state, sigma)
    if exact is not None:
        return exact
    if isinstance(state.distribution, StackedUnits):
        return stacked([apply_activation(sigma, part, context) for part in state.distribution.parts])
    inner = None if state.gaussian else expression(state)
    if inner is not None:
        before, function = inner
        return apply_activation(known(lambda x: sigma(function(x))), before, context)
    if not state.gaussian:
        return sampled(state, ActivatedUnits(sigma, state), context)
    fused = loops.large_loops(state.kxx, state.kyy, state.d) if sigma.name == "relu" else None
    if fused is not None:
        summed = MapSums.found(*fused.rectified(*map(as_numpy, (state.kxx, state.kyy, state.d)), axes=2))
        kxx, kyy, d = summed.kxx, summed.kyy, summed.d
    else:
        summed, (kxx, kyy, d) = None, transformed(sigma, state.kxx, state.kyy, state.d)
    return state.after(
        kxx=kxx,
        kyy=kyy,
        d=d,
        distribution=ActivatedUnits(sigma, state),
        fresh=frozenset(),
        origin=Activations(state, sigma),
        status=weakest(state.status, sigma.method),
        summed=summed,
    )


def _composed(outer: Activation, inner: Activation) -> Activation:
    """An activation of an activation is one activation of the Gaussian."""
    if outer.name == inner.name == "relu":
        return outer
    return replace(activation(lambda x: outer(inner(x))), name=f"{outer.name}({inner.name})")
