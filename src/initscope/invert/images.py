"""`invert_layers`: photographs reconstructed from the outputs of several layers of a network.

`recover` inverts the output of each layer. The reconstruction is compared with the input by the peak signal-to-noise
ratio in dB and by structural similarity.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from initscope._utils.libraries import library
from initscope._utils.progress import kept_if_interrupted, none_is_no_result, steps as counted_steps
from initscope.errors import InputError
from initscope.invert.chain import prepared, run_to, step_named, traced
from initscope.invert.priors import Box, TotalVariation
from initscope.invert.recovery import Method, recover
from initscope.rendering.page import render_part, versions
from initscope.rendering.rows import shown_rows
from initscope.results import Result, counted, format_number, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Inversions", "InvertedImage", "invert_layers", "psnr", "ssim"]

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class InvertedImage(Result):
    """One image from one layer: ``values`` outputs per pixel value, the layer's relative residual, dB and SSIM.

    ``exact``: the outputs determine the image; ``converged``: the solver has converged; ``message``: what is not
    determined.
    """

    image: int
    layer: str
    values: float
    relative_residual: float
    exact: bool
    converged: bool
    psnr: float
    ssim: float
    method: str
    message: str
    reconstruction: Floats = field(repr=False)


@dataclass(frozen=True)
class Inversions(Result):
    """Reconstructions, image by image and layer by layer."""

    images: Floats = field(repr=False)
    rows: tuple[InvertedImage, ...]
    title: str = ""

    def table(self) -> list[dict[str, Any]]:
        """Return one row per image and layer, without the pixels."""
        return [
            {name: getattr(row, name) for name in row.__dataclass_fields__ if name != "reconstruction"}
            for row in self.rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the title and the table; the pixels are in ``rows``."""
        return {"title": self.title, "rows": self.table()}

    def means(self) -> list[dict[str, Any]]:
        """Return one row per layer: means over the images, standard errors (two images or more), and the message."""
        result = []
        for layer in dict.fromkeys(row.layer for row in self.rows):
            mine = [row for row in self.rows if row.layer == layer]
            line: dict[str, Any] = {"layer": layer, "images": len(mine)}
            for name in ("psnr", "ssim", "relative_residual"):
                values = np.array([getattr(row, name) for row in mine])
                line[name] = float(values.mean())
                if len(mine) > 1:
                    line[f"{name}_se"] = float(values.std(ddof=1) / np.sqrt(len(mine)))
            line["exact"] = sum(row.exact for row in mine)
            line["converged"] = sum(row.converged for row in mine)
            line["message"] = "; ".join(dict.fromkeys(row.message for row in mine if row.message))
            result.append(line)
        return result

    def sheet(self) -> Floats:
        """Return all reconstructions as one image ``[C, H, W]``: a row per image, first the original, then layers."""
        layers = list(dict.fromkeys(row.layer for row in self.rows))
        lines = []
        for index, image in enumerate(self.images):
            by_layer = {row.layer: row.reconstruction for row in self.rows if row.image == index}
            lines.append(np.concatenate([image, *(by_layer[layer] for layer in layers)], axis=2))
        sheet: Floats = np.clip(np.concatenate(lines, axis=1), 0, 1)
        return sheet

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the sheet, with the mean dB of every layer above its column."""
        sheet = self.sheet()
        side = self.images.shape[-1]
        inches = max(side / 80, 1.1) / side  # space for the names above small images
        ax = make_axes(ax, figsize=(inches * sheet.shape[2], inches * sheet.shape[1] + 0.4))
        ax.imshow(np.moveaxis(sheet, 0, -1) if len(sheet) == 3 else sheet[0], cmap="gray", vmin=0, vmax=1)
        names = ["input", *(f"{line['layer']}\n{line['psnr']:.1f} dB" for line in self.means())]
        ax.set_xticks([side * (column + 0.5) for column in range(len(names))], names, fontsize=7)
        ax.xaxis.tick_top()
        ax.tick_params(length=0)
        ax.set_yticks([])
        return ax

    def summary(self) -> list[dict[str, str]]:
        """Return one row per layer, as texts: dB, structural similarity, residual, and how much is determined."""
        rows = []
        for line in self.means():
            texts = {"layer": str(line["layer"])}
            for name, title, digits in (("psnr", "dB", 1), ("ssim", "SSIM", 3), ("relative_residual", "residual", 2)):
                shown = format_number(line[name], 2) if title == "residual" else f"{line[name]:.{digits}f}"
                error = f" ± {format_number(line[f'{name}_se'], 2)}" if f"{name}_se" in line else ""
                texts[title] = shown + error
            mine = [row for row in self.rows if row.layer == line["layer"]]
            texts["known"] = ", ".join(dict.fromkeys(_known(row) for row in mine))
            rows.append(texts)
        return rows

    def notes(self) -> list[str]:
        """Return what is not determined, layer by layer."""
        messages = {line["layer"]: line["message"] for line in self.means() if line["message"]}
        return [f"{layer}: {message.removeprefix(f'{layer}: ')}." for layer, message in messages.items()]

    def _html(self) -> str:
        """Return a page with the reconstructions by layer, what is not determined, and the tables."""
        lines = []
        for index, image in enumerate(self.images):
            lines.append([_shown(image, "the input", "", index)])
            for row in self.rows:
                if row.image == index:
                    caption = f"{row.psnr:.1f} dB, SSIM {row.ssim:.2f}, {_known(row)}"
                    lines[-1].append(_shown(row.reconstruction, row.layer, caption, index))
        best, *others = sorted(self.means(), key=lambda line: -float(line["psnr"]))
        less = "".join(f"; {line['layer']} {line['psnr']:.1f} dB" for line in others)
        every = [
            {"image": row.image + 1, "layer": row.layer, "outputs per value": row.values, "dB": row.psnr,
             "SSIM": row.ssim, "residual": row.relative_residual, "known": _known(row), "method": row.method}
            for row in self.rows
        ]  # fmt: skip
        return render_part(
            "page.html",
            body="inversions.html",
            title=self.title or "Photographs reconstructed from the outputs of layers",
            headline=f"Mean over {counted(len(self.images), 'image')}: {best['layer']} {best['psnr']:.1f} dB{less}.",
            images=lines,
            means=shown_rows(self.summary()),
            notes=self.notes(),
            every=shown_rows(every),
            run={"versions": ", ".join(f"{name} {number}" for name, number in versions().items())},
        )


def _known(row: InvertedImage) -> str:
    """Return how much of one image is determined: exact, partial, converged or stopped early."""
    if row.exact:
        return "exact"
    if "gradient" in row.method:
        return "converged" if row.converged else "stopped early"
    return "partial"


def _shown(image: Floats, name: str, caption: str, index: int) -> dict[str, str]:
    """Return an image with its caption, for the page."""
    from PIL import Image

    pixels = np.round(255 * np.clip(np.moveaxis(image, 0, -1), 0, 1)).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels if pixels.shape[-1] == 3 else pixels[..., 0]).save(stream, "PNG", optimize=True)
    data = f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"
    says = f"image {index + 1}: {f'from {name}' if caption else name}"
    return {"name": name, "caption": caption, "says": says, "data": data}


def psnr(image: Floats, reconstruction: Floats) -> float:
    """Return the peak signal-to-noise ratio in dB for values in [0, 1]; infinite for equal images.

    Parameters
    ----------
    image, reconstruction : array
        Values in [0, 1], of one shape.

    Returns
    -------
    float

    Examples
    --------
    >>> psnr(np.zeros(4), np.full(4, 0.1)).__round__(6)
    20.0
    """
    error = float(np.mean((np.asarray(image, dtype=np.float64) - reconstruction) ** 2))
    return float("inf") if error == 0 else -10 * float(np.log10(error))


def ssim(image: Floats, reconstruction: Floats) -> float:
    """Return the structural similarity of two images ``[C, H, W]`` with values in [0, 1] (scikit-image).

    Parameters
    ----------
    image, reconstruction : array ``[C, H, W]``
        Values in [0, 1], of one shape.

    Returns
    -------
    float
    """
    measure = library("skimage.metrics").structural_similarity
    window = min(7, image.shape[-1] - (image.shape[-1] + 1) % 2, image.shape[-2] - (image.shape[-2] + 1) % 2)
    first, second = (np.asarray(values, dtype=np.float64) for values in (image, reconstruction))
    return float(measure(first, second, data_range=1.0, channel_axis=0, win_size=window))


def invert_layers(
    model: nn.Module,
    images: Any,
    layers: Sequence[str],
    *,
    mean: float | Sequence[float] = 0.0,
    std: float | Sequence[float] = 1.0,
    smoothness: float = 0.01,
    method: Method = "auto",
    iterations: int = 200,
    seed: int = 0,
    progress: bool | Callable[[str], None] = False,
    title: str = "",
) -> Inversions:
    """Invert the outputs of ``layers`` of a network on photographs.

    Source: [Bronstein2016]_, 'Inverting a CNN'.

    Parameters
    ----------
    model : nn.Module
        Taken in evaluation mode.
    images : array, ``[N, C, H, W]`` in [0, 1]
        The network gets (image - mean)/std.
    layers : sequence of str
        Names of layers, as in the tables of `initscope.inspect`; the name of a block means its last layer.
    mean, std : float or one per channel
        The normalization that the network expects.
    smoothness : float
        Weight of the total variation in the descent; 0 for none.
    method, iterations, seed
        See `recover`.
    progress : bool or callable
        True: lines on stderr; a callable gets a sentence per image.
    title : str
        Title of the result.

    Returns
    -------
    Inversions
        The reconstructed images of every layer, with their errors.
    """
    pixels = _checked(images)
    if not layers:
        raise InputError("no layers are named; give at least one, for example layers=['conv1']")
    shape = pixels.shape[1:]
    center, spread = (np.asarray(value, dtype=np.float32).reshape(-1, 1, 1) for value in (mean, std))
    box = _pixel_box(center, spread)
    prior = (TotalVariation(smoothness), box) if smoothness else (box,)
    work = prepared(model, torch.float32)
    steps = traced(work, shape, torch.float32)
    rows = []
    cells = [(layer, index, image) for layer in layers for index, image in enumerate(pixels)]
    with kept_if_interrupted():
        for layer, index, image in counted_steps(cells, "inverting images"):
            last = step_named(steps, layer)
            given = torch.from_numpy((image - center) / spread)
            with torch.no_grad():
                target = run_to(steps, last, given[None])
            if not bool(torch.isfinite(target).all()):
                raise InputError(
                    f"layer {layer!r} gives NaN or infinite outputs for image {index + 1}; check for weights that "
                    "are not finite or too large"
                )
            recovery = recover(work, target, prior=prior, method=method, seed=seed, layer=layer, input_shape=shape,
                            iterations=iterations, progress=progress is True)  # fmt: skip
            reconstruction = np.clip(recovery.inputs[0].numpy() * spread + center, 0, 1)
            row = InvertedImage(
                image=index,
                layer=layer,
                values=target.numel() / image.size,
                relative_residual=recovery.relative_residual,
                exact=recovery.exact,
                converged=recovery.converged,
                psnr=psnr(image, reconstruction),
                ssim=ssim(image, reconstruction),
                method=recovery.method,
                message=recovery.message,
                reconstruction=reconstruction,
            )
            rows.append(row)
            if callable(progress):
                progress(f"{layer}, image {index + 1}: {row.psnr:.1f} dB")
    none_is_no_result(rows)
    return Inversions(pixels, tuple(rows), title)


def _checked(images: Any) -> NDArray[np.float32]:
    """Return the images as an array ``[N, C, H, W]`` in [0, 1]."""
    pixels = np.asarray(images.detach().cpu() if isinstance(images, torch.Tensor) else images, dtype=np.float32)
    if pixels.ndim != 4 or not len(pixels):
        raise InputError(f"images of shape {pixels.shape} must be [N, C, H, W] with at least one image")
    low, high = float(pixels.min()), float(pixels.max())
    if not (low >= 0 and high <= 1):
        raise InputError(
            f"images have values from {low:.3g} to {high:.3g}; give values in [0, 1], and mean and std separately"
        )
    return pixels


def _pixel_box(center: Floats, spread: Floats) -> Box:
    """Return the range of normalized pixels of [0, 1]: two numbers, or two per channel."""
    low, high = ((-center / spread).ravel().tolist(), ((1 - center) / spread).ravel().tolist())
    return Box(low[0], high[0]) if len(low) == 1 else Box(tuple(low), tuple(high))
