"""The suites that ship: the library's own parts keep them, a user's subclass inherits them, and they bite."""

import dataclasses

import numpy as np
import pytest
from torch import nn

import initscope
from initscope.embed import SignHash
from initscope.initializers import He, Initializer, Orthogonal, WeightDistribution
from initscope.propagate import InputValues
from initscope.testing import ActivationContract, HasherContract, InitializerContract, RuleContract
from initscope.theory import activations


class TestReLU(ActivationContract):
    activation = activations.relu


class TestOwnActivation(ActivationContract):
    activation = activations.activation(lambda x: x / (1 + x * x), kinks=())


class TestHe(InitializerContract):
    initializer = He(bias_variance=0.2)


class TestOrthogonal(InitializerContract):
    initializer = Orthogonal()
    depend = True

    def layers(self):
        return super().layers()[:1]


class Halve(nn.Module):
    def forward(self, x):
        return x / 2


@initscope.rule(Halve)
def halve(module, state, context):
    return state.run(module) if isinstance(state, InputValues) else state.scaled(0.5)


class TestRule(RuleContract):
    input_shape = (6,)

    def layer(self):
        return Halve()


class TestSignHash(HasherContract):
    def hasher(self):
        return SignHash(bits=64, random_state=3)


def test_a_wrong_activation_is_caught():
    """A dual that is off by one in a thousand."""

    class Wrong(type(activations.relu)):
        def _dual(self, xp, kxx, kyy, kxy):
            return 1.001 * super()._dual(xp, kxx, kyy, kxy)

    fields = {f.name: getattr(activations.relu, f.name) for f in dataclasses.fields(activations.relu) if f.init}

    class Contract(ActivationContract):
        activation = Wrong(**fields)

    with pytest.raises(AssertionError):
        Contract().test_expectations_agree_with_quadrature()


def test_a_wrong_law_is_caught():
    class Wrong(He):
        def weight_distribution(self, module):
            stated = super().weight_distribution(module)
            return WeightDistribution(1.3 * stated.variance, stated.bias_variance)

    class Contract(InitializerContract):
        initializer = Wrong()

    with pytest.raises(AssertionError):
        Contract().test_draws_have_the_second_moments_that_it_states()
    assert isinstance(Contract.initializer, Initializer)


def test_a_wrong_rule_is_caught():
    class Third(nn.Module):
        def forward(self, x):
            return x / 3

    @initscope.rule(Third)
    def wrong(module, state, context):
        return state.run(module) if isinstance(state, InputValues) else state.scaled(0.5)

    class Contract(RuleContract):
        input_shape = (6,)

        def layer(self):
            return Third()

    with pytest.raises(AssertionError):
        Contract().test_prediction_agrees_with_wide_networks()


def test_a_hash_that_looks_at_its_batch_is_caught():
    class Batchwise(SignHash):
        def transform(self, X):
            return super().transform(np.asarray(X) - np.asarray(X).mean(axis=0) if len(X) > 1 else X)

    class Contract(HasherContract):
        def hasher(self):
            return Batchwise(bits=64, random_state=3)

    with pytest.raises(AssertionError):
        Contract().test_equal_rows_have_equal_codes()
