"""``initscope invert`` and ``initscope discriminate``: inversion of layers, and compressed classification."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from initscope.cli._comparison import check_suffix, save_figure
from initscope.cli._help import OUTPUT
from initscope.cli._options import Seed, Whole
from initscope.cli._output import Format, ask_of, emit, print_table, say, user_code
from initscope.cli._sources import DataSource, load_data
from initscope.cli.predict_measure import Model, Page
from initscope.errors import InputError, check_count

if TYPE_CHECKING:
    from initscope.data import ImageSet

__all__ = ["discriminate", "invert"]

NORMALIZATIONS: dict[str, tuple[Any, Any]] = {
    "none": (0.0, 1.0),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


def invert(
    model: Model,
    /,
    *,
    layer: Annotated[list[str] | None, Parameter(help="Layer to invert; may be given several times.")] = None,
    input: Annotated[
        Path | None, Parameter(help="A photograph, or a folder of them; default: two bundled crops.")
    ] = None,
    weights: Annotated[Path | None, Parameter(help="State dict: .pt, .pth or .npz.")] = None,
    size: Annotated[Whole, Parameter(help="Side to which photographs are cropped and resized.")] = 64,
    normalize: Annotated[str, Parameter(help="Normalization that the network expects: none or imagenet.")] = "none",
    iterations: Annotated[Whole, Parameter(help="Maximum number of solver iterations per image.")] = 200,
    smoothness: Annotated[float, Parameter(help="Weight of the total variation in the descent.")] = 0.001,
    seed: Annotated[Seed, Parameter(help="Seed of everything random.")] = 0,
    format: Format = "table",
    out: Page = None,
) -> None:
    """Show what the layers of a network preserve of a photograph, by inverting their outputs."""
    from initscope.invert import invert_layers
    from initscope.models import load_model

    check_suffix(out, "--out", (".html", ".htm"))
    if normalize not in NORMALIZATIONS:
        raise InputError(f"--normalize {normalize!r} must be one of {', '.join(NORMALIZATIONS)}")
    photos = _photographs(input, check_count("size", size, least=3, hint="images are compared in windows of 3 to 7"))
    mean, std = NORMALIZATIONS[normalize]
    with user_code():
        built = load_model(model, weights=weights, input_shape=photos.shape, seed=seed)
        ask_of(model=model, weights=weights and str(weights), data=str(input or photos.name), seed=seed)
        result = invert_layers(
            built,
            photos.images,
            layer or _last_layers(built),
            mean=mean,
            std=std,
            smoothness=smoothness,
            iterations=iterations,
            seed=seed,
            progress=say,
            title=f"What layers of {model} still know",
        )
    if out is not None:
        result.to_html(out)
        say(f"page: {out}")
    if format == "table":
        words = {
            "dB": "of the inverted photograph; higher is better",
            "SSIM": "structural similarity; 1: the same image",
            "residual": "of the layer's output, relative",
            "±": "standard error over the photographs",
        }
        print_table(result.summary(), title=result.title, words=words)
        for note in result.notes():
            say(note)
    else:
        emit(result, format)


def _photographs(path: Path | None, size: int) -> ImageSet:
    from initscope.data import load, load_folder
    from initscope.data.folders import read_images
    from initscope.data.image_set import ImageSet

    if path is None:
        return load("photos", crop=size, limit=2)
    if path.is_dir():
        return load_folder(path, size)
    if not path.is_file():
        raise InputError(f"--input {path} is neither a file nor a folder; give a photograph, such as photo.png")
    return ImageSet(read_images([path], (size, size)), name=str(path))


def _last_layers(model: object) -> list[str]:
    """Return the layers of the option, by default at most four layers with weights, evenly spaced in depth."""
    from torch import nn

    assert isinstance(model, nn.Module)
    names = [
        name for name, part in model.named_modules() if name and next(part.parameters(recurse=False), None) is not None
    ]
    if not names:
        raise InputError("the model has no layer with weights; name another layer with --layer")
    return names if len(names) <= 4 else [names[round(k * (len(names) - 1) / 3)] for k in range(4)]


def discriminate(
    *,
    source: DataSource | None = None,
    ratios: Annotated[str, Parameter(help="Comma-separated numbers of pixels per measurement.")] = "2,4,8,16,32",
    reconstruct: Annotated[Whole, Parameter(help="Number of images to reconstruct at each ratio.")] = 4,
    epochs: Annotated[Whole, Parameter(help="Training epochs of the CNN; 0 trains none.")] = 8,
    figure: Annotated[
        Path | None, Parameter(group=OUTPUT, help="Write the figure to this .png, .svg or .pdf file.")
    ] = None,
    format: Format = "table",
) -> None:
    """Show with how few measurements classification and reconstruction still work."""
    from initscope.invert import discriminate as run

    check_suffix(figure, "--figure", (".png", ".svg", ".pdf"))
    try:
        wanted = [float(part) for part in ratios.split(",")]
    except ValueError:
        raise InputError(f"--ratios {ratios!r} must be numbers joined by commas, such as 2,4,8") from None
    source = source or DataSource()
    data = load_data(source if source.data is not None else DataSource(data="digits", limit=source.limit))
    if data.labels is None:
        raise InputError(f"{data.name} has no labels, which classification needs; give labeled data, such as digits")
    with user_code():
        result = run(data.images, data.labels, wanted, reconstruct=reconstruct, epochs=epochs, seed=source.seed,
                    name=data.name, progress=say)  # fmt: skip
    words = {
        "ratio": "pixels for each measurement",
        "features": "accuracy of random ReLU features",
        "cnn": "accuracy of a trained CNN",
        "psnr": "of the reconstruction, in dB",
        "±": "standard error",
    }
    title = f"{result.name}: accuracy from all pixels {result.full:.3f} ± {result.full_se:.3f}"
    emit(result, format, title=title, words=words)
    if figure is not None:
        save_figure(result.plot(), figure)
