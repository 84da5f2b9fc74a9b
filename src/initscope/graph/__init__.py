"""The ops of a model: what each one is, how they are listed, and how they are run with observers.

`trace` lists the ops of a model as nodes of a `Graph`, symbolically where the model allows it (`torch.fx`), else by
recording one run. A `Node` has `Traits` that describe the op, from one table (``ops``). `run` runs a graph on batches
and shows every output to observers. `borrowed` restores the user's model. ``README.md`` has a diagram and says what to
read first. Importing it imports torch.
"""

from initscope.graph.activations import ACTIVATIONS, ActivationRow, activation_of, activation_row
from initscope.graph.batch import Batch, as_pairs, distinct, pair_batches
from initscope.graph.borrowing import borrowed, copy_of, modules_of, snapshot, unwrapped, without_dropout
from initscope.graph.calls import as_module, call_name
from initscope.graph.fx_nodes import CONSTANT_OPS, is_named_tuple
from initscope.graph.graph import Graph
from initscope.graph.hidden_units import hidden_sides
from initscope.graph.in_place import overwritten
from initscope.graph.inputs import BatchArgs, Inputs, bind, map_tensors, named_tensors, refuse_different_lengths
from initscope.graph.modes import NO_VALUES, Mode, couples_samples, output_tensor, set_mode, unit_axes
from initscope.graph.modules import ActivationLayer
from initscope.graph.node import Node
from initscope.graph.op_traits import role_of, traits_of_call, traits_of_module
from initscope.graph.ops import WEIGHT_LAYERS, WeightLayer, declare_role, is_convolution, is_weight_layer
from initscope.graph.pair_norms import Sides, as_slices, cosine_of, gap_of, pair_norms
from initscope.graph.paths import Branch
from initscope.graph.running import GraphRun, Observer, run
from initscope.graph.samples import SampleAxes, SampleAxis, sample_axes
from initscope.graph.single_ops import declare_whole, hides_attention, hides_steps, stays_whole
from initscope.graph.symbolic import NodeCallback
from initscope.graph.tracing import trace
from initscope.traits import Normalization, Pooling, Role, Traits

__all__ = [
    "ACTIVATIONS",
    "CONSTANT_OPS",
    "NO_VALUES",
    "WEIGHT_LAYERS",
    "ActivationLayer",
    "ActivationRow",
    "Batch",
    "BatchArgs",
    "Branch",
    "Graph",
    "GraphRun",
    "Inputs",
    "Mode",
    "Node",
    "NodeCallback",
    "Normalization",
    "Observer",
    "Pooling",
    "Role",
    "SampleAxes",
    "SampleAxis",
    "Sides",
    "Traits",
    "WeightLayer",
    "activation_of",
    "activation_row",
    "as_module",
    "as_pairs",
    "as_slices",
    "bind",
    "borrowed",
    "call_name",
    "copy_of",
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
    "modules_of",
    "named_tensors",
    "output_tensor",
    "overwritten",
    "pair_batches",
    "pair_norms",
    "refuse_different_lengths",
    "role_of",
    "run",
    "sample_axes",
    "set_mode",
    "snapshot",
    "stays_whole",
    "trace",
    "traits_of_call",
    "traits_of_module",
    "unit_axes",
    "unwrapped",
    "without_dropout",
]
