"""`Context`: data for a rule beyond its input: the distribution of weights, and random numbers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from initscope.initializers import Initializer, WeightDistribution
from initscope.propagate.covariance_budget import CovarianceBudget

__all__ = ["Context"]


@dataclass(frozen=True)
class Context:
    """Data for a rule: the distribution of weights, random numbers, and earlier samples."""

    initializer: Initializer
    generator: torch.Generator = field(default_factory=torch.Generator)
    budget: CovarianceBudget = field(default_factory=CovarianceBudget)
    mode: str | None = None
    """"train" or "eval" for layers that differ between them; None: as each module is."""
    replicate: int = 0
    replicates: int = 1
    """All that is sampled is sampled several times, each with a share of the samples: their spread is the error."""
    same: dict[int, int] = field(default_factory=dict)
    """Parameters that are drawn as one with another, by ``id``."""
    tied: frozenset[int] = frozenset()
    """Weights that several steps read in different ways, by ``id``: no formula knows what they do together."""
    sampled: list[str] = field(default_factory=list)
    """What was drawn so far: "units" or "networks", once for each step."""
    grams: OrderedDict[int, Tensor] = field(default_factory=OrderedDict)
    """Gram matrices over all positions that were found last (`covariances.gram`)."""
    values: OrderedDict[int, tuple[Tensor, Tensor]] = field(default_factory=OrderedDict)
    """Values that were drawn last (`token_sampling.token_values`), by the order of their maps."""
    factors: OrderedDict[int, Tensor] = field(default_factory=OrderedDict)
    """Roots of the Gram matrices that values were drawn from last (`token_sampling.gaussian_tokens`)."""
    cosines: dict[int, float] = field(default_factory=dict)
    """Mean cosines of tokens (`MomentMaps.token_cosine`)."""
    roots: list[Any] | None = None
    """All values that were drawn, where gradients are to be taken by them (`SampledRoot`)."""
    _weight_distributions: dict[nn.Module, WeightDistribution] = field(default_factory=dict)

    def of_replicate(self, index: int, generator: torch.Generator) -> Context:
        """Return the context of another replicate, which shares no samples with this one."""
        return replace(
            self,
            replicate=index,
            generator=generator,
            grams=OrderedDict(),
            values=OrderedDict(),
            factors=OrderedDict(),
            cosines={},
        )

    def training(self, module: nn.Module) -> bool:
        """Return whether a layer acts as in training."""
        return module.training if self.mode is None else self.mode == "train"

    def drawn(self, parameters: Iterable[Any]) -> frozenset[object]:
        """Return the identities under which parameters are drawn; parameters drawn together have the same one."""
        return frozenset(self.same.get(id(parameter), id(parameter)) for parameter in parameters)

    def weight_distribution(self, module: Any) -> WeightDistribution:
        """Return the weight distribution of a module, asked for once."""
        if module not in self._weight_distributions:
            stated = self.initializer.weight_distribution(module)
            # An initializer states a bias for any layer; a layer without a bias gets none.
            has_none = stated.bias_variance > 0 and getattr(module, "bias", False) is None
            self._weight_distributions[module] = replace(stated, bias_variance=0.0) if has_none else stated
        return self._weight_distributions[module]
