"""Models that keep something between their calls, and what of a model and of the process may be left changed.

`MODELS` holds builders of models with ``[samples, 6]`` inputs, or the kind that is named beside them; `state` lists
everything that a measuring tool must leave as it was, bit by bit.
"""

import math
import random
import signal
from collections import deque

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as global_hooks
from torch.nn.utils import parametrizations, prune

__all__ = ["CALLS", "MODELS", "Compiled", "changed", "inputs_of", "process_state", "state"]


class Base(nn.Module):
    """A layer before and one behind what the model is about."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 4)
        self.build()

    def build(self):
        """What it keeps."""

    def middle(self, h):
        return torch.relu(h)

    def forward(self, x):
        return self.last(self.middle(self.first(x)))


class RunningMean(Base):
    def build(self):
        self.register_buffer("mean", torch.zeros(8))

    def middle(self, h):
        with torch.no_grad():
            self.mean.lerp_(h.mean(0), 0.1)
        return torch.relu(h - self.mean)


class RunningMeanDetached(RunningMean):
    def middle(self, h):
        self.mean.lerp_(h.detach().mean(0), 0.1)
        return torch.relu(h - self.mean)


class RunningMeanInGraph(RunningMean):
    """Careless: its buffer becomes part of the graph when gradients are on."""

    def middle(self, h):
        self.mean = 0.9 * self.mean.detach() + 0.1 * h.mean(0)
        return torch.relu(h - self.mean)


class RunningMeanBranching(RunningMean):
    def middle(self, h):
        return super().middle(h if h.sum() > -1e9 else -h)


class Clamping(Base):
    def middle(self, h):
        with torch.no_grad():
            self.first.weight.clamp_(-0.1, 0.1)
        return torch.relu(h)


class ClampingData(Base):
    def middle(self, h):
        self.first.weight.data.clamp_(-0.1, 0.1)
        self.last.weight.data = self.last.weight.data / self.last.weight.data.norm()
        return torch.relu(h)


class ClampingBranching(ClampingData):
    def middle(self, h):
        return super().middle(h if h.sum() > -1e9 else -h)


class MaxNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.last = nn.Embedding(20, 8, max_norm=0.5), nn.Linear(8, 4)

    def forward(self, ids):
        return self.last(self.embedding(ids).mean(1))


class Books(Base):
    def build(self):
        self.log, self.recent, self.table, self.count = [], deque([1], maxlen=4), {"losses": [0.5]}, 0
        self.array, self.last_seen = np.zeros(3), None

    def middle(self, h):
        self.log.append(1)
        self.recent.append(2)
        self.table["losses"].append(0.1)
        self.table["new"] = 1
        self.count += 1
        self.array += 1
        self.last_seen = h
        return torch.relu(h)


class OwnGenerators(Base):
    def build(self):
        self.generator, self.python = torch.Generator().manual_seed(3), random.Random(3)
        self.numpy = np.random.default_rng(3)

    def middle(self, h):
        noise = torch.randn(8, generator=self.generator) + self.python.random() + float(self.numpy.random())
        return torch.relu(h + noise)


class Drawing(Base):
    def middle(self, h):
        random.random(), np.random.rand()  # noqa: NPY002
        return torch.relu(h + torch.randn(8))


class HooksAndModes(Base):
    def build(self):
        self.first.register_forward_hook(lambda module, args, output: output * 2)
        self.last.register_full_backward_hook(lambda module, grads, outputs: None)
        self.first.eval()
        self.last.bias.requires_grad_(False)


class SelfHooking(Base):
    def middle(self, h):
        self.first.register_forward_hook(lambda module, args, output: None)
        self.last.eval()
        self.first.weight.requires_grad_(False)
        return torch.relu(h)


class SwitchingModes(Base):
    def middle(self, h):
        self.eval()
        h = F.dropout(h, 0.5, self.training)
        self.train()
        return h


class WithGradients(Base):
    def build(self):
        for parameter in self.parameters():
            parameter.grad = torch.randn_like(parameter)


def batch_normed():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 4))


def spectral():
    return nn.Sequential(parametrizations.spectral_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 4))


def old_spectral():
    return nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 4))


def weight_normed():
    return nn.Sequential(parametrizations.weight_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 4))


def pruned():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    prune.random_unstructured(model[0], "weight", 0.5)
    return model


def tied():
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    model[2].weight = model[0].weight
    return model


def half_frozen():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    model[0].requires_grad_(False)
    return model


def instance_normed():
    return nn.Sequential(nn.Unflatten(1, (2, 3)), nn.InstanceNorm1d(2, track_running_stats=True), nn.Flatten())


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.last = nn.GRU(2, 5, batch_first=True, dropout=0.2, num_layers=2), nn.Linear(5, 3)
        self.hidden = None

    def forward(self, x):
        output, self.hidden = self.gru(x.reshape(-1, 3, 2))
        return self.last(output[:, -1])


class Expanded(Base):
    """A buffer that is expanded, one that grows, a NaN, a scalar."""

    def build(self):
        self.register_buffer("wide", torch.ones(1, 8).expand(4, 8))
        self.register_buffer("growing", torch.zeros(2))
        self.register_buffer("unknown", torch.full((2,), torch.nan))
        self.register_buffer("count", torch.tensor(0))

    def middle(self, h):
        self.wide[:1, 0].data.add_(1)
        self.growing.resize_(5).fill_(1)
        self.count.add_(1)
        return torch.relu(h)


class OddAttributes(Base):
    """Bytes that are counted up, and an array of objects whose elements are replaced and written."""

    def build(self):
        self.counter = bytearray(3)
        self.objects = np.array([[1], torch.zeros(2), None], dtype=object)

    def middle(self, h):
        self.counter[0] += 1
        self.objects[0].append(2)
        self.objects[1].add_(1)
        self.objects[2] = "new"
        return torch.relu(h)


class Slots(Base):
    """Attributes that are not in ``vars(model)``."""

    __slots__ = ("calls", "mean", "unset")

    def build(self):
        self.calls, self.mean = [], torch.zeros(8)

    def middle(self, h):
        self.calls.append(1)
        self.mean.lerp_(h.detach().mean(0), 0.1)
        self.unset = 1
        return torch.relu(h - self.mean)


class SetsGlobals(Base):
    """Sets defaults and switches of the whole process."""

    def middle(self, h):
        torch.set_default_dtype(torch.float64)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.autograd.set_detect_anomaly(True, check_nan=False)
        torch.set_float32_matmul_precision("high")
        torch.set_grad_enabled(False)
        return torch.relu(h)


class SharedBuffers(Base):
    """Two buffers of one memory, one that a list holds too, one in a tuple."""

    def build(self):
        self.register_buffer("both", torch.zeros(2, 8))
        self.register_buffer("first_row", self.both[0])
        self.register_buffer("listed", torch.zeros(8))
        self.several, self.pair = [self.listed, torch.ones(8)], (torch.zeros(8), 1)

    def middle(self, h):
        with torch.no_grad():
            self.first_row.add_(1)
            self.several[0].add_(1)
            self.pair[0].add_(1)
        assert torch.equal(self.both[0], self.first_row)
        assert torch.equal(self.listed, self.several[0])
        return torch.relu(h + self.both[0] + self.listed)


class Fails(RunningMean):
    """Only after it has written."""

    def middle(self, h):
        super().middle(h)
        raise RuntimeError("no more")


MODELS = {
    "running mean": RunningMean,
    "running mean, detached": RunningMeanDetached,
    "running mean, in the graph": RunningMeanInGraph,
    "running mean, branching": RunningMeanBranching,
    "clamped weights": Clamping,
    "clamped data": ClampingData,
    "clamped data, branching": ClampingBranching,
    "embedding with max_norm": MaxNorm,
    "books": Books,
    "generators of its own": OwnGenerators,
    "draws from all": Drawing,
    "hooks and mixed modes": HooksAndModes,
    "hooks itself": SelfHooking,
    "switches its mode": SwitchingModes,
    "gradients at hand": WithGradients,
    "batch norm and dropout": batch_normed,
    "spectral norm": spectral,
    "spectral norm, old": old_spectral,
    "weight norm": weight_normed,
    "pruned": pruned,
    "tied weights": tied,
    "half frozen": half_frozen,
    "instance norm": instance_normed,
    "recurrent": Recurrent,
    "odd buffers": Expanded,
    "odd attributes": OddAttributes,
    "slots": Slots,
    "sets globals": SetsGlobals,
    "shared buffers": SharedBuffers,
    "fails": Fails,
}


class Compiled(nn.Module):
    """As `torch.compile` wraps a model (which takes seconds to load)."""

    def __init__(self, model):
        super().__init__()
        self._orig_mod = model

    def forward(self, *args):
        raise AssertionError("the compiler would look into the hooks")


def inputs_of(name, samples=8, seed=0):
    """A batch for a model of `MODELS`."""
    generator = torch.Generator().manual_seed(seed)
    if name == "embedding with max_norm":
        return torch.randint(20, (samples, 5), generator=generator)
    return torch.randn(samples, 6, generator=generator)


def _observe(model, x, **options):
    from initscope.measurement import observe

    return observe(model, x, pairs=4, **options)


def _sides(function):
    def call(model, x):
        import initscope

        return function(initscope, model, x[: len(x) // 2], x[len(x) // 2 :])

    return call


def _widths(model, x):
    from initscope.measurement import layer_widths

    return layer_widths(model, x)


def _jacobian(model, x):
    from initscope.measurement import jacobian_spectrum

    return jacobian_spectrum(model, x, samples=1)


def _trace(model, x):
    from initscope.graph import trace

    return trace(model, x)


CALLS = {
    "trace": _trace,
    "observe": _observe,
    "observe, eval": lambda model, x: _observe(model, x, gradients=False, mode="eval"),
    "measure as it is": _sides(lambda scope, model, x, y: scope.measure(model, x, y, draws=0)),
    "measure draws": _sides(lambda scope, model, x, y: scope.measure(model, x, y, draws=2)),
    "predict": _sides(lambda scope, model, x, y: scope.predict(model, x, y)),
    "inspect": lambda model, x: __import__("initscope").inspect(model, x, pairs=4, alternatives=False),
    "jacobian": _jacobian,
    "widths": _widths,
}


def _bits(tensor):
    values = tensor.detach().clone(memory_format=torch.contiguous_format)  # NumPy would forbid to resize the tensor
    gradient = tensor.grad if tensor.is_leaf else None
    return (
        id(tensor),
        tensor.data_ptr() if isinstance(tensor, nn.Parameter) else None,
        (tuple(tensor.shape), tensor.stride(), tensor.dtype),
        values.reshape(-1).view(torch.uint8).numpy().tobytes(),
        (tensor.requires_grad, tensor.is_leaf),
        None if tensor.is_inference() else tensor._version,
        None if gradient is None else (id(gradient), gradient.clone().numpy().tobytes()),
    )


def _content(value, seen):
    """Everything in a value that may change, as something that can be compared."""
    if isinstance(value, torch.Tensor):
        return _bits(value)
    if id(value) in seen:
        return id(value)
    seen.add(id(value))
    if isinstance(value, nn.Module):
        return (id(value), type(value), _content(vars(value), seen))
    if isinstance(value, dict):
        return id(value), [(key, _content(item, seen)) for key, item in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return id(value), [_content(item, seen) for item in value]
    if isinstance(value, torch.Generator):
        return value.get_state().numpy().tobytes()
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.ndarray):
        return id(value), [_content(item, seen) for item in value.flat] if value.dtype == object else value.tobytes()
    if isinstance(value, bytearray):
        return id(value), bytes(value)
    return repr(value)


def process_state():
    """What of the process a run may change."""
    return {
        "call of modules": nn.Module.__call__,
        "attributes of modules": nn.Module.__getattr__,
        "functions of math": (math.sqrt, math.floor),
        "global hooks": [
            list(getattr(global_hooks, name))
            for name in dir(global_hooks)
            if name.startswith("_global_") and hasattr(getattr(global_hooks, name), "keys")
        ],
        "modes of functions": torch._C._len_torch_function_stack(),
        "gradient mode": torch.is_grad_enabled(),
        "default dtype": torch.get_default_dtype(),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        "anomaly mode": (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        "precision of products": torch.get_float32_matmul_precision(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "interrupts": signal.getsignal(signal.SIGINT),
        "random state of torch": torch.get_rng_state().numpy().tobytes(),
        "random state of NumPy": repr(np.random.get_state()[1].tobytes()),  # noqa: NPY002
        "random state of Python": random.getstate(),
    }


def state(model):
    """What of a model and of the process a run may change."""
    modules = {id(module) for module in model.modules()}
    return process_state() | {
        path or "model": (
            list(module._modules),
            _content(vars(module), set(modules)),
            [_content(getattr(module, name, "missing"), set(modules)) for name in getattr(module, "__slots__", ())],
        )
        for path, module in model.named_modules()
    }


def changed(before, after):
    """Names of what differs."""
    return [name for name in before if before[name] != after.get(name)] + [name for name in after if name not in before]
