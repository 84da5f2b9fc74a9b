"""The ops of a model: what each one is, how they are listed, and how they are run with observers.

`trace` lists the ops of a model, symbolically where the model allows it (`torch.fx`), else by recording one run.
`role_of` says what a module or a call does, `activation_row` which activation it is, `as_module` which module a call
amounts to. `Recorder` runs a traced model on batches and shows every output to observers. Everything runs without
leaving a trace in the user's model (``untouched``). Importing it imports torch.
"""

from initscope.graph._in_place import overwritten
from initscope.graph._inputs import BatchArgs, Inputs, bind, map_tensors, named_tensors, refuse_different_lengths
from initscope.graph._nodes import MADE_ANEW, is_named_tuple
from initscope.graph._samples import SampleAxes, SampleAxis, sample_axes
from initscope.graph._streams import hidden_sides
from initscope.graph._symbolic import Watch
from initscope.graph._threads import LARGE, all_threads, multiplications
from initscope.graph._trace import Node, Step, Trace, attends, trace
from initscope.graph.activations import ACTIVATIONS, ActivationRow, activation_of, activation_row
from initscope.graph.batch import Batch, as_pairs, distinct, pair_batches
from initscope.graph.calls import as_module, call_name
from initscope.graph.modules import ActivationLayer
from initscope.graph.op_traits import role_of, traits_of_call, traits_of_module
from initscope.graph.ops import declare_role
from initscope.graph.pair_norms import Sides, as_slices, cosine_of, gap_of, pair_norms
from initscope.graph.recorder import Recorder, Tally
from initscope.graph.steps import NO_VALUES, Mode, couples_samples, output_tensor, set_mode, unit_axes
from initscope.graph.weights import WeightLayer, is_convolution, is_weight_layer, unit_axis
from initscope.graph.whole import declare_whole, hides_attention, hides_steps, stays_whole
from initscope.traits import Normalization, Pooling, Role, Traits

__all__ = [
    "ACTIVATIONS",
    "LARGE",
    "MADE_ANEW",
    "NO_VALUES",
    "ActivationLayer",
    "ActivationRow",
    "Batch",
    "BatchArgs",
    "Inputs",
    "Mode",
    "Node",
    "Normalization",
    "Pooling",
    "Recorder",
    "Role",
    "SampleAxes",
    "SampleAxis",
    "Sides",
    "Step",
    "Tally",
    "Trace",
    "Traits",
    "Watch",
    "WeightLayer",
    "activation_of",
    "activation_row",
    "all_threads",
    "as_module",
    "as_pairs",
    "as_slices",
    "attends",
    "bind",
    "call_name",
    "cosine_of",
    "couples_samples",
    "declare_role",
    "declare_whole",
    "distinct",
    "gap_of",
    "hidden_sides",
    "hides_attention",
    "hides_steps",
    "is_convolution",
    "is_named_tuple",
    "is_weight_layer",
    "map_tensors",
    "multiplications",
    "named_tensors",
    "output_tensor",
    "overwritten",
    "pair_batches",
    "pair_norms",
    "refuse_different_lengths",
    "role_of",
    "sample_axes",
    "set_mode",
    "stays_whole",
    "trace",
    "traits_of_call",
    "traits_of_module",
    "unit_axes",
    "unit_axis",
]
