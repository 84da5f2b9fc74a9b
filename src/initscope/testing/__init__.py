"""Contract suites for one's own activation, weight law, rule or hash: inherit one, say what to test, run pytest.

>>> from initscope.theory.activations import activation
>>> class TestMyActivation(ActivationContract):
...     activation = activation(lambda x: x / (1 + x**2))
>>> TestMyActivation().test_zero_variance_gives_the_value_at_zero_times_the_other_mean()

Each check states in its docstring what it would catch. The library's own parts are held to the same suites.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
