"""Facts from weights alone: layers that are copies, units that are equal, one layer unlike its peers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvTransposeNd

from initscope.graph import is_weight_layer, role_of
from initscope.graph.ops import WEIGHT_LAYERS

__all__ = ["WeightFacts", "drawn_weights", "following", "weight_facts"]

_LEAST_VALUES, _DIFFERENT = 64, 8
"""Weights with fewer values, or fewer distinct ones (identities, constants), are equal for other reasons."""
_FEW_UNITS = 8
"""Units count as symmetric if the layer has this many times more units than distinct ones; sub-pixel layers have 4."""
_PEERS, _ALIKE = 3, 0.2
"""Fewest peers of an odd layer, and the relative spread of their gains up to which they count as alike."""
_FOLLOWS = 0.5
"""Correlation of frozen weights with trained ones from which they count as a copy or a running average of these."""


_RANDOM = (
    *WEIGHT_LAYERS,
    nn.Embedding,
    nn.EmbeddingBag,
    nn.MultiheadAttention,
    nn.RNNBase,
    nn.RNNCellBase,
    nn.Bilinear,
)
"""Modules with matrices that are initialized at random."""


@dataclass(frozen=True)
class WeightFacts:
    """Facts by module path: ``clones`` gives the earlier layer with equal weights, ``symmetric`` the share of units
    that equal another unit, ``odd`` the standard deviation of the weights over that of the layer's peers."""

    clones: dict[str, str]
    symmetric: dict[str, float]
    odd: dict[str, float]
    mixing: dict[str, tuple[int, int]]
    """Inputs and outputs of the layers that mix all channels: not grouped, and not transposed."""
    tied: frozenset[str] = frozenset()
    """Modules that share their weights with an embedding, so that zero logits would mean zero embeddings."""
    shifted: tuple[str, ...] = ()
    """Norms whose biases make most of their outputs negative."""
    zero_tables: frozenset[str] = frozenset()
    """Embeddings that start at zero on purpose, such as the second one of word2vec."""
    repeated: dict[str, str] = field(default_factory=dict)
    """Members of a list with weights that are the same module as an earlier member, with its name."""
    straight: tuple[str, ...] = ()
    """Activations that change nothing: a leaky slope of 1."""
    norm_eps: dict[str, float] = field(default_factory=dict)
    """Norms and their eps."""
    norm_momentum: dict[str, float] = field(default_factory=dict)
    """Batch norms and their momentum."""
    zero_layers: frozenset[str] = frozenset()
    """Layers whose weights are all zero."""


def drawn_weights(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, Tensor]]:
    """Yield path, module, name and values of every matrix that is initialized at random; tied matrices once."""
    seen: set[int] = set()
    for path, module in model.named_modules():
        if isinstance(module, _RANDOM):
            for name, parameter in module.named_parameters(recurse=False):
                if parameter.dim() > 1 and id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield path, module, name, parameter.detach()


def following(model: nn.Module) -> frozenset[str]:
    """Return frozen modules with the weights of a trained one, or their running average: teachers, target networks.

    >>> student, teacher = nn.Linear(8, 8), nn.Linear(8, 8).requires_grad_(False)
    >>> _ = teacher.load_state_dict(student.state_dict())
    >>> following(nn.ModuleDict({"student": student, "teacher": teacher}))
    frozenset({'teacher'})
    """
    learning: dict[tuple[object, ...], list[Tensor]] = defaultdict(list)
    frozen: list[tuple[str, tuple[object, ...], Tensor]] = []
    for path, module, name, values in drawn_weights(model):
        group, centered = (type(module), name, tuple(values.shape)), values.double() - values.double().mean()
        if getattr(module, name).requires_grad:
            learning[group].append(centered)
        else:
            frozen.append((path, group, centered))

    def alike(first: Tensor, second: Tensor) -> bool:
        return bool((first * second).sum() > _FOLLOWS * first.norm() * second.norm())

    return frozenset(path for path, group, values in frozen if any(alike(values, other) for other in learning[group]))


def weight_facts(model: nn.Module) -> WeightFacts:
    """Return the facts about the weights of a model."""
    frozen = {p.data_ptr() for p in model.parameters() if not p.requires_grad}
    weights = [item for item in drawn_weights(model) if item[3].data_ptr() not in frozen]
    mixing = {
        path: (values[0].numel(), len(values))
        for path, module, _, values in weights
        if is_weight_layer(module) and getattr(module, "groups", 1) == 1 and not isinstance(module, _ConvTransposeNd)
    }
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    modules = dict(model.named_modules())
    roles = {kind: role_of(kind) for kind in set(map(type, modules.values()))}
    norms = {path: module for path, module in modules.items() if roles[type(module)] == "norm"}
    named = {path: module for path, module in modules.items() if getattr(module, "weight", None) is not None}
    tied = frozenset([path for path, module in named.items() if id(module.weight) in tables])
    shifted = tuple(path for path, module in norms.items() if path in named and _is_shifted(module))
    looked_up = {path: m for path, m in named.items() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))}
    zero = frozenset(path for path, table in looked_up.items() if not bool(table.weight.any()))
    symmetries = _clones(weights), _symmetric(weights), _odd(weights)
    leaky = {path: module for path, module in modules.items() if isinstance(module, nn.LeakyReLU)}
    straight = tuple(path for path, module in leaky.items() if module.negative_slope == 1)
    eps = {path: float(m.eps) for path, m in norms.items() if isinstance(getattr(m, "eps", None), float)}
    tracking = {path: m for path, m in norms.items() if getattr(m, "track_running_stats", False)}
    momentum = {path: float(m.momentum) for path, m in tracking.items() if isinstance(m.momentum, float)}
    layers = [(path, module) for path, module in named.items() if isinstance(module, WEIGHT_LAYERS)]
    zeros = frozenset([path for path, layer in layers if not bool(layer.weight.any())])
    return WeightFacts(*symmetries, mixing, tied, shifted, zero, _repeated(model), straight, eps, momentum, zeros)


def _repeated(model: nn.Module) -> dict[str, str]:
    """Return members of one list or sequence that are the same module; modules shared elsewhere are intended."""
    first: dict[tuple[str, int], str] = {}
    repeated = {}
    for path, module in model.named_modules(remove_duplicate=False):
        parent, _, name = path.rpartition(".")
        original = first.setdefault((parent, id(module)), path) if name.isdigit() else path
        if original != path and any(parameter.dim() > 1 for parameter in module.parameters()):
            repeated[path] = original
    return repeated


def _is_shifted(norm: nn.Module) -> bool:
    """Return whether the outputs of most units are negative by more than two standard deviations."""
    weight, bias = getattr(norm, "weight", None), getattr(norm, "bias", None)
    if not isinstance(weight, Tensor) or not isinstance(bias, Tensor):
        return False
    return bool(((bias + 2 * weight.abs()) < 0).double().mean() > 0.5)


_Weights = list[tuple[str, nn.Module, str, Tensor]]


def _clones(weights: _Weights) -> dict[str, str]:
    """Return modules whose weights are bitwise equal to those of an earlier one; frozen copies do not count."""
    alike: dict[tuple[object, ...], list[tuple[str, Tensor]]] = defaultdict(list)
    clones: dict[str, str] = {}
    for path, _, name, values in weights:
        first = values.flatten()[:_LEAST_VALUES].tolist()
        if values.numel() < _LEAST_VALUES or len(set(first)) < _DIFFERENT:
            continue
        group = alike[(name, tuple(values.shape), *first[:_DIFFERENT])]
        original = next((other for other, theirs in group if torch.equal(values, theirs)), None)
        if original is None:
            group.append((path, values))
        else:
            clones.setdefault(path, original)
    return clones


def _symmetric(weights: _Weights) -> dict[str, float]:
    """Return layers with few distinct units, except zeros and depthwise layers, whose units see different inputs."""
    symmetric = {}
    for path, module, _, values in weights:
        if not is_weight_layer(module) or getattr(module, "groups", 1) > 1 or len(values) < 2:
            continue
        rows = values.flatten(1).double()
        if not bool(rows.any()):
            continue
        signs = torch.linspace(1, 2, rows.shape[1], dtype=torch.float64, device=rows.device)
        different = len(torch.unique((rows * signs).sum(dim=1)))
        if different * _FEW_UNITS <= len(rows) or different == 1:
            symmetric[path] = 1 - different / len(rows)
    return symmetric


def _odd(weights: _Weights) -> dict[str, float]:
    """Return layers whose standard deviation differs from all peers of their name and shape, if these agree."""
    peers: dict[tuple[object, ...], list[tuple[str, float]]] = defaultdict(list)
    for path, module, name, values in weights:
        if is_weight_layer(module) and values.numel() >= _LEAST_VALUES:
            peer_group = (re.sub(r"\d+", "*", path), name, tuple(values.shape), type(module).__name__)
            peers[peer_group].append((path, float(values.std())))
    odd_layers = {}
    for group in peers.values():
        if len(group) <= _PEERS:
            continue
        ordered = sorted(group, key=lambda item: item[1])
        for odd, rest in ((ordered[0], ordered[1:]), (ordered[-1], ordered[:-1])):
            least, most = rest[0][1], rest[-1][1]
            if least > 0 and most / least < 1 + _ALIKE and odd[1] > 0:
                odd_layers[odd[0]] = odd[1] / ((least + most) / 2)
    return odd_layers
