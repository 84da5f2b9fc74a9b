"""Figures show the right numbers, in one style."""

import io
import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import initscope
from initscope.geometry import Comparison
from initscope.rendering.depth import Panel
from initscope.rendering.figures import BAD, angle_figure, pairs_figure, panels_figure
from initscope.results import make_axes, panels


def line(ax, label):
    return next(found for found in ax.lines if found.get_label() == label)


def test_angles(comparison):
    ax = angle_figure(comparison)
    assert np.array_equal(line(ax, "predicted").get_ydata(), comparison.prediction.angle.mean(axis=1))
    (bars,) = ax.containers
    assert np.array_equal(bars[0].get_ydata(), comparison.measurement.angle.mean(axis=1))
    upper = np.array([segment[1, 1] for segment in bars[2][0].get_segments()])
    error = comparison.measurement.mean_angle_se
    assert np.allclose(upper - bars[0].get_ydata(), 2 * error)
    assert ax.get_xticklabels()[0].get_text() == "relu3"
    (band,) = ax.collections[:1]
    assert band.get_paths()[0].vertices[:, 1].max() == pytest.approx(
        np.percentile(comparison.prediction.angle, 90, axis=1).max()
    )


def test_panels_are_drawn_on_one_axis_of_layers():
    panels = [
        Panel(
            "size", "", "", np.array([1.0, np.nan, 0.02]), predicted=np.array([1.0, np.nan, 0.5]), low=1e-3, high=1e3
        ),
        Panel("nothing", "", "", np.full(3, np.nan)),
        Panel("dead", "", "", np.array([np.nan, 0.75, 0.25]), high=0.5, least=0.0, most=1.0),
    ]
    titles = ["input", "layer 0 (Linear)", "layer 1 (ReLU)"]
    first = panels_figure(panels, titles, [frozenset(), frozenset(), frozenset({1})])
    top, bottom = first.figure.axes
    assert top is first
    assert [ax.get_ylabel() for ax in (top, bottom)] == ["size", "dead"]
    assert top.get_shared_x_axes().joined(top, bottom)
    assert top.get_yscale() == "log"
    assert line(top, "predicted").get_ydata().tolist() == [1.0, 0.5]
    marked = [found for found in bottom.lines if found.get_color() == BAD]
    assert [found.get_xydata().tolist() for found in marked] == [[[1, 0.75]]]
    assert [tick.get_text() for tick in bottom.get_xticklabels()] == ["input", "layer 0", "layer 1"]
    (legend,) = first.figure.legends
    assert {text.get_text() for text in legend.texts} == {"healthy", "measured", "predicted", "out of bounds"}


def test_a_notebook_shows_axes_as_their_figure(comparison):
    """What a cell's last expression is asked for; pyplot, which would show it otherwise, knows nothing of it."""
    shown = comparison.plot()._repr_png_()
    with Image.open(io.BytesIO(shown)) as picture:
        assert picture.format == "PNG"
        assert picture.width > 400
    assert make_axes(None)._repr_png_().startswith(b"\x89PNG")


def test_pairs_measured_against_predicted(comparison):
    ax = pairs_figure(comparison)
    last = line(ax, "after relu3")
    assert np.array_equal(last.get_xdata(), comparison.prediction.cosine[6])
    assert np.array_equal(last.get_ydata(), comparison.measurement.cosine[6])
    alone = pairs_figure(Comparison(measurement=comparison.measurement))
    assert np.array_equal(line(alone, "after relu3").get_xdata(), comparison.measurement.cosine[0])
    assert alone.get_xlabel() == "cosine of the inputs"


def test_layers_without_a_prediction_leave_a_gap(partly_covered):
    assert np.isnan(line(angle_figure(partly_covered), "predicted").get_ydata()[2:]).all()
    assert {found.get_label() for found in pairs_figure(partly_covered).lines[:-1]} == {"after layer 1 (Conv2d)"}


def test_given_axes_are_used(comparison):
    ax = angle_figure(comparison)
    assert comparison.plot(ax) is ax


def test_all_figures_have_one_style_and_leave_the_users_settings_alone():
    import matplotlib

    from initscope._utils.palette import PALETTE

    before = dict(matplotlib.rcParams)
    single, (left, right) = make_axes(None), panels(lambda ax: ax.plot([1]), lambda ax: ax.plot([1])).axes
    assert dict(matplotlib.rcParams) == before
    for ax in (single, left, right):
        (line,) = ax.plot([0, 1], label="x") if ax is single else ax.lines
        assert line.get_color() == PALETTE[0]
        assert not ax.spines["top"].get_visible()
        assert ax.get_xgridlines()[0].get_visible()
    assert not single.legend().get_frame_on()
    single.imshow(np.zeros((2, 2)))
    assert not single.get_xgridlines()[0].get_visible()


@pytest.mark.parametrize("ends", [(30, 100), (1, 8), (2.1, 4.3), (128, 1024), (1e-8, 1), (1e-5, 3e7)])
def test_labels_of_logarithmic_ticks_do_not_overlap(ends):
    """Both axes have two labels or more, and there is space between the boxes of neighbors."""
    ax = make_axes(None, (4.8, 3.2))
    ax.loglog(ends, ends)
    ax.figure.canvas.draw()
    for axis, side in ((ax.xaxis, 0), (ax.yaxis, 1)):
        labels = [label for label in axis.get_majorticklabels() + axis.get_minorticklabels() if label.get_text()]
        low, high = axis.get_view_interval()
        boxes = [label.get_window_extent() for label in labels if low <= label.get_position()[side] <= high]
        edges = sorted((box.min[side], box.max[side]) for box in boxes)
        assert len(edges) >= 2
        assert all(end < begin for (_, end), (begin, _) in itertools.pairwise(edges))


def test_only_one_function_makes_figures():
    """All others go through it, so that they have the same style; colors are those of the palette."""
    source = Path(initscope.__file__).parent
    texts = {path.relative_to(source).as_posix(): path.read_text(encoding="utf-8") for path in source.rglob("*.py")}
    makers = [name for name, text in texts.items() if re.search(r"(?<!-> )\bFigure\(", text)]
    assert makers == ["results.py"]
    assert not [name for name, text in texts.items() if re.search(r"""["']C(\d|\{\w+\})["']|["']tab:""", text)]


def test_the_colors_of_lines_can_be_read_on_white():
    """Contrast as WCAG defines it, at least 4.5."""
    from initscope._utils.palette import PALETTE

    def light(color):
        parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    assert min(1.05 / (light(color) + 0.05) for color in PALETTE) >= 4.5
