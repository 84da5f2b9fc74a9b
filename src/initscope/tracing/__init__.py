"""A model as a list of steps: what prediction walks and what measurement runs, so that both have the same rows.

`trace` is symbolic where the model allows it (`torch.fx`, nothing is run); a model that branches on its data is run
once and recorded instead. Modules of ``torch.nn`` and modules that have a rule stay whole, all others are looked into.

Read ``_trace`` first: it has both ways, ``_symbolic`` and ``_recorded``. ``_inputs`` says how data become arguments,
``_samples`` where the samples of an output lie, ``untouched`` how the model is left as it was.
"""

from initscope.tracing._in_place import overwritten
from initscope.tracing._inputs import BatchArgs, Inputs, bind, map_tensors, named_tensors, refuse_different_lengths
from initscope.tracing._nodes import MADE_ANEW, is_named_tuple
from initscope.tracing._samples import SampleAxes, SampleAxis, sample_axes
from initscope.tracing._streams import hidden_sides
from initscope.tracing._symbolic import Watch
from initscope.tracing._threads import LARGE, all_threads, multiplications
from initscope.tracing._trace import Node, Step, Trace, attends, trace

# fmt: off
__all__ = [
    "LARGE", "MADE_ANEW", "BatchArgs", "Inputs", "Node", "SampleAxes", "SampleAxis", "Step", "Trace", "Watch",
    "all_threads", "attends", "bind", "hidden_sides", "is_named_tuple", "map_tensors", "multiplications",
    "named_tensors", "overwritten", "refuse_different_lengths", "sample_axes", "trace",
]
# fmt: on
