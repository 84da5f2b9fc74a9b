"""What a step of a model is: one row per activation, one role per kind of step. Everybody asks here, nobody guesses.

`role_of` says what a module or a call does (weights, activation, norm, …); `activation_row` which activation it is,
with its range and what a zero means; `as_module` which module a call amounts to; `stays_whole` which modules are one
step each. Importing it imports torch.
"""

from initscope.layers.activations import ACTIVATIONS, ActivationRow, activation_of, activation_row
from initscope.layers.calls import as_module, call_name
from initscope.layers.modules import ActivationLayer
from initscope.layers.roles import Role, declare_role, role_of
from initscope.layers.weights import WeightLayer, is_convolution, is_weight_layer, unit_axis
from initscope.layers.whole import declare_whole, hides_attention, hides_steps, stays_whole

__all__ = [
    "ACTIVATIONS",
    "ActivationLayer",
    "ActivationRow",
    "Role",
    "WeightLayer",
    "activation_of",
    "activation_row",
    "as_module",
    "call_name",
    "declare_role",
    "declare_whole",
    "hides_attention",
    "hides_steps",
    "is_convolution",
    "is_weight_layer",
    "role_of",
    "stays_whole",
    "unit_axis",
]
