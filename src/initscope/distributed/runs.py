"""A single run: a pure function of its row and the options, with seeds derived from them.

Results therefore do not depend on the order of runs, on the worker, or on restarts. Runs that differ in the
quantity only look at the same pairs and the same weights.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from initscope._utils.compiled import loops
from initscope._utils.content import array_digest
from initscope.errors import InputError

if TYPE_CHECKING:
    import torch

    from initscope.data import ImageSet
    from initscope.geometry import Measurement, Prediction

__all__ = ["QUANTITIES", "derived_seed", "images_digest", "load_images", "rows_of", "structure_digest"]

Rows = list[dict[str, Any]]
_ONE_RUN = threading.Lock()
"""Torch's global generator is one for all threads of a process, as Dask's workers may have them."""


def rows_of(job: Mapping[str, Any]) -> Rows:
    """Return rows of the run that ``job`` describes: ``{"run": the row of the grid, "options": …, "contents": …}``."""
    import torch

    loops("initscope.theory._fused", pays=True)  # or rounding would depend on what this process ran before
    with _ONE_RUN:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # sums of several threads are rounded differently
        try:
            return QUANTITIES[job["run"]["quantity"]](_Job(**job))
        finally:
            torch.set_num_threads(threads)


def derived_seed(*parts: Any) -> int:
    """Return a seed from any JSON value; it is the same on every machine."""
    return int.from_bytes(hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()[:7], "big")


def load_images(
    data: str, seed: int, pairs: int, normalize: str | None, limit: int | None, digest: str | None = None
) -> ImageSet:
    """Return the inputs of a run; data that is drawn is drawn for its seed, two for each pair.

    With the ``digest`` of `images_digest`, data with other content are refused, and loaded data are kept for the next
    run; without it, the data are loaded from their location.
    """
    from initscope.data import load
    from initscope.data.sources import seeded

    if data.partition(":")[0] == "gaussian" and limit is None and "limit=" not in data:
        limit = 2 * pairs
    if digest is None:
        return load(seeded(data, seed), normalize=normalize, limit=limit)
    return _loaded(data, seeded(data, seed), normalize, limit, str(Path.cwd()), digest)


@functools.lru_cache(maxsize=4)
def _loaded(data: str, spec: str, normalize: str | None, limit: int | None, folder: str, digest: str) -> ImageSet:
    from initscope.data import load

    images = load(spec, normalize=normalize, limit=limit)
    if images_digest(data, images) != digest:
        raise InputError(
            f"{data} holds other data than when the sweep began: it was replaced, or this machine has another copy; "
            "use the same data everywhere, and a new folder with --out"
        )
    return images


def images_digest(data: str, images: ImageSet) -> str:
    """Return the digest of the data that ``data`` names; "" for synthetic data, which its name determines."""
    from initscope.data.sources import is_drawn

    return "" if is_drawn(data) else array_digest(images.images, images.labels)


def structure_digest(spec: str, model: torch.nn.Module) -> str:
    """Return the digest of a model's structure and code; "" for an architecture string."""
    from initscope.models.contents import model_digest
    from initscope.models.loading import is_architecture

    return "" if is_architecture(spec) else model_digest(model, values=False)


class _Job:
    """A run's row and options, digests of the content of its names, and the loaded objects."""

    def __init__(self, run: Mapping[str, Any], options: Mapping[str, Any], contents: Mapping[str, str]) -> None:
        self.run, self.options, self.contents = run, options, contents
        row = {name: value for name, value in run.items() if name != "quantity"}
        self.seed = derived_seed(row)

    @functools.cached_property
    def images(self) -> ImageSet:
        """The inputs."""
        options = {name: self.options[name] for name in ("pairs", "normalize", "limit")}
        return load_images(self.run["data"], self.run["seed"], **options, digest=self.contents["data"])

    @functools.cached_property
    def initializer(self) -> Any:
        """Return the initializer of the weights."""
        from initscope.initializers import named

        return named(self.run["initializer"])

    def model(self) -> torch.nn.Module:
        """Return the model, with its own initial weights."""
        from initscope.models import load_model

        spec = self.run["model"]
        built: torch.nn.Module = load_model(spec, input_shape=self.images.shape, seed=self.seed)
        if structure_digest(spec, built) != self.contents["model"]:
            raise InputError(
                f"model {spec} has changed since the sweep began: its code was edited, or this machine has "
                "another copy; use the same files everywhere, and a new folder with --out"
            )
        return built

    def started(self) -> torch.nn.Module:
        """Return the model with weights drawn by the initializer of the run, biases included if it has them."""
        import torch

        model = self.model()
        if self.run["initializer"] != "present":
            self.initializer.fill_(model, generator=torch.Generator().manual_seed(self.seed))
        return model

    def pairs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return pairs of inputs; they are the same for all runs with the same data set and seed."""
        import torch

        from initscope.data.sources import pairs_of

        run = self.run
        x, y, _ = pairs_of(self.images, self.options["pairs"], derived_seed("pairs", run["data"], run["seed"]))
        return torch.from_numpy(x), torch.from_numpy(y)


def _predicted(job: _Job) -> Rows:
    from initscope.propagate import predict

    geometry = predict(job.model(), *job.pairs(), job.initializer, draws=job.options["draws"], seed=job.seed)
    return _geometry(geometry, None if geometry.cosine_se is None else _rms(geometry.cosine_se), None)


def _measured(job: _Job) -> Rows:
    from initscope.measurement import measure

    model, (x, y) = job.model(), job.pairs()
    geometry = measure(model, x, y, initializer=job.initializer, draws=job.options["draws"], seed=job.seed)
    return _geometry(geometry, geometry.mean_cosine_se, geometry.mean_norm_ratio_se)


def _rms(errors: Any) -> Any:
    """Return the standard error of the mean over pairs that share sampled quantities.

    It is not smaller than that of one pair.
    """
    import numpy as np

    return np.sqrt(np.square(errors).mean(axis=1))


def _geometry(geometry: Prediction | Measurement, cosine_se: Any, norm_se: Any) -> Rows:
    """Return means over pairs of every layer."""
    from initscope.geometry import mean_over_pairs

    means = {name: mean_over_pairs(getattr(geometry, name)) for name in ("cosine", "angle", "norm_ratio", "rms_ratio")}
    means |= {name: e for name, e in (("cosine_se", cosine_se), ("norm_ratio_se", norm_se)) if e is not None}
    return [
        {"row": number, "layer": row.layer, "kind": row.kind, "method": row.status, "note": row.note}
        | {name: _finite(values[number]) for name, values in means.items()}
        for number, row in enumerate(geometry.rows)
    ]


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _widths(job: _Job) -> Rows:
    from initscope.measurement import layer_widths

    geometry = layer_widths(job.started(), job.images.images, draws=max(2, job.options["draws"]), seed=job.seed)
    return [
        {"row": number, "layer": row.layer, "kind": row.kind, "method": "measured", "note": row.reason}
        | ({} if row.width is None else {"mean_width": row.width.value, "mean_width_se": row.width.standard_error})
        for number, row in enumerate(geometry.rows)
    ]


def _inspected(job: _Job) -> Rows:
    """Return every row of the report, with the findings that begin there."""
    from initscope.inspection import inspect

    inputs, pairs = job.images.images, job.options["pairs"]
    report = inspect(job.started(), inputs, pairs=pairs, seed=job.seed, alternatives=False, prediction=False)
    findings: dict[str, list[str]] = {}
    for finding in report.findings:
        findings.setdefault(finding.layer, []).append(finding.name)
    rows = report.observation.rows
    return [
        {"row": number, "layer": row.layer, "kind": row.kind, "method": "measured"}
        | {"findings": ", ".join(findings.get(row.layer, []))}
        for number, row in enumerate(rows)
    ]


def _trained(job: _Job) -> Rows:
    """Adam at a rate that falls to 0 along a line; accuracy on a fifth of the images, which are not trained on."""
    import torch
    import torch.nn.functional as F

    from initscope.models.training_loop import Loop, seeded

    data, options = job.images, job.options
    if data.labels is None:
        raise InputError(f"{data.name} has no labels to train on")
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(derived_seed("split", job.run["seed"])))
    inputs, labels = torch.from_numpy(data.images)[order], torch.from_numpy(data.labels)[order]
    test = max(1, len(data) // 5)
    model = job.started()
    with seeded(job.seed):
        optimizer = torch.optim.Adam(model.parameters(), lr=options["rate"])
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=options["steps"])

        def loss(pick: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(inputs[test:][pick]), labels[test:][pick])

        items = len(data) - test
        loop = Loop(model.train(), loss, items=items, batch=options["batch"], optimizer=optimizer, schedule=schedule)
        losses = [float(loop.step()) for _ in range(options["steps"])]
        with torch.no_grad():
            right = (model.eval()(inputs[:test]).argmax(dim=1) == labels[:test]).double()
    accuracy = float(right.mean())
    last = losses[-10:]
    return [
        {"row": 0, "layer": "output", "kind": type(model).__name__, "method": "measured"}
        | {"accuracy": accuracy, "accuracy_se": math.sqrt(accuracy * (1 - accuracy) / test)}
        | {"loss": _finite(sum(last) / len(last))}
    ]


QUANTITIES: dict[str, Callable[[_Job], Rows]] = {
    "predict": _predicted,
    "measure": _measured,
    "mean-width": _widths,
    "inspect": _inspected,
    "train": _trained,
}
"""What a run can compute, by the name that ``quantity`` gives it."""
