"""Test suites for new activations, initializers, rules and hashes: inherit one, set what to test, run pytest.

>>> from initscope.theory.activations import activation
>>> class TestMyActivation(ActivationContract):
...     activation = activation(lambda x: x / (1 + x**2))
>>> TestMyActivation().test_zero_variance_gives_the_value_at_zero_times_the_other_mean()

The docstring of each test says which errors it detects. The parts of this library pass the same suites.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
