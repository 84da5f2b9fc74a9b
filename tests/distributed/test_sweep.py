"""A sweep from end to end: interrupted, killed and started again, it gives the bytes of one that was not disturbed."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from initscope.cli import main
from initscope.distributed import run_sweep
from initscope.distributed.runs import QUANTITIES, images_digest, load_images, rows_of
from initscope.errors import InputError

pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")

GRID = """
[grid]
architecture = ["dense{width}-relu*{depth}-dense10", "conv3x3x4-tanh-dense10"]
width = [8, 16]
depth = [2, 3]
initializer = ["he", "lecun:gain=1.1"]
data = ["digits"]
seed = [0, 1]
quantity = ["predict", "measure"]
[run]
pairs = 10
draws = 2
limit = 200
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "sweep.toml").write_text(GRID)
    found = run_sweep(folder / "sweep.toml", folder / "out", workers=2)
    assert (found.runs, found.ran, found.failed) == (40, 40, 0)
    return folder


def bytes_of(folder):
    return (folder / "results.parquet").read_bytes()


def started(file, out):
    """The command in a process of its own."""
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # which nohup ignores
        f"from initscope.cli import main; main(['sweep', {str(file)!r}, '--out', {str(out)!r}, '--workers', '1'])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE, text=True)


def wait_for_results(out, count):
    while len([*out.glob("tasks/[!.]*.parquet")]) < count:
        time.sleep(0.01)


def test_interrupted_killed_and_resumed(undisturbed, tmp_path):
    """Ctrl-C, without words about semaphores, then SIGKILL, then on: byte for byte what an undisturbed sweep writes."""
    file, out = undisturbed / "sweep.toml", tmp_path / "out"
    first = started(file, out)
    wait_for_results(out, 2)
    first.send_signal(signal.SIGINT)
    said = first.communicate()[1]
    assert "interrupted" in said
    assert "leaked" not in said
    assert first.returncode == 130
    after = pandas.read_parquet(out)["run"].nunique()
    assert 2 <= after < 40
    second = started(file, out)
    wait_for_results(out, 2)
    second.kill()
    second.communicate()
    kept = pandas.read_parquet(out)
    assert kept["run"].nunique() >= after + 2
    assert not kept.duplicated(["run", "row"]).any()
    assert 0 < run_sweep(file, out, workers=1).ran <= 40 - after - 2
    assert bytes_of(out) == bytes_of(undisturbed / "out")
    assert run_sweep(file, out).ran == 0


def test_order_and_processes_do_not_matter(undisturbed):
    """A run computed here and alone is the run of the folder."""
    from dataclasses import asdict

    from initscope.distributed import read_sweep

    table = pandas.read_parquet(undisturbed / "out")
    sweep = read_sweep(undisturbed / "sweep.toml")
    for name, run in [*sweep.by_id().items()][5::13]:
        rows = rows_of({"run": asdict(run), "options": asdict(sweep.options), "contents": asdict(sweep.contents(run))})
        kept = table[table["run"] == name]
        assert kept["cosine"].tolist() == [row["cosine"] for row in rows]


def test_predictions_and_measurements_are_of_the_same_pairs(undisturbed):
    table = pandas.read_parquet(undisturbed / "out")
    inputs = table[table["row"] == 0].groupby("seed")["cosine"]
    assert np.ptp(inputs.min() - inputs.max()) < 1e-6
    assert (inputs.nunique() <= 2).all()  # float32 of one, float64 of the other
    page = (undisturbed / "out" / "_summary.html").read_text()
    assert page.count("<svg") >= 4
    assert "40 runs done, none failed" in page


def test_failures_are_recorded_and_retried(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.eye(6, 4) + 1.0)
    model = "from torch import nn\nclass Net(nn.Linear):\n  def forward(self, x):\n    "
    tail = "return super().forward(x)\ndef make():\n  return Net(4, 5)\n"
    (tmp_path / "net.py").write_text(model + "raise OSError('no luck')\n    " + tail)
    (tmp_path / "sweep.toml").write_text(
        '[grid]\narchitecture = ["dense8-relu", "net.py:make"]\ndata = ["x.npy"]\nquantity = ["measure"]\n'
    )
    command = ["sweep", "sweep.toml", "--out", "out", "--workers", "1", "--format", "json"]
    with pytest.raises(SystemExit) as left:
        main(command)
    told = capsys.readouterr()
    assert left.value.code == 1
    assert "no luck" in told.err
    assert (json.loads(told.out)["ran"], json.loads(told.out)["failed"]) == (2, 1)
    table = pandas.read_parquet("out")
    assert table[table["status"] == "failed"]["error"].str.contains("no luck").tolist() == [True]
    assert "no luck" in (tmp_path / "out" / "_summary.html").read_text()
    for more, ran in ([], 0), (["--retry-failed"], 1):
        with pytest.raises(SystemExit):
            main([*command, *more])
        assert json.loads(capsys.readouterr().out)["ran"] == ran
    (tmp_path / "net.py").write_text(model + tail)  # a failed run of code that was edited is run again unasked
    main(command)
    told = json.loads(capsys.readouterr().out)
    assert {"folder": "out", "runs": 2, "ran": 1, "failed": 0, "errors": {}}.items() <= told.items()
    assert (pandas.read_parquet("out")["status"] == "done").all()


def test_other_grids_are_refused_and_larger_ones_go_on(undisturbed, tmp_path):
    import shutil

    out, file = tmp_path / "out", tmp_path / "sweep.toml"
    shutil.copytree(undisturbed / "out", out)
    file.write_text(GRID.replace("[8, 16]", "[8]"))
    with pytest.raises(InputError, match="of another grid"):
        run_sweep(file, out, workers=1)
    assert bytes_of(out) == bytes_of(undisturbed / "out")


@pytest.mark.parametrize("changed", ["data", "model", "code"])
def test_a_folder_holds_results_of_one_data_set_one_model_and_one_code(tmp_path, monkeypatch, changed):
    """Rows of data, a model file or code of initscope that has changed since were kept as if they were of this one."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.eye(6, 4) + 1.0)
    model = "from torch import nn\ndef make():\n  return nn.Sequential(nn.Linear(4, 5), nn.ReLU())\n"
    (tmp_path / "net.py").write_text(model)
    (tmp_path / "sweep.toml").write_text(
        '[grid]\narchitecture = ["net.py:make"]\ndata = ["x.npy"]\nquantity = ["measure"]\n'
    )
    assert run_sweep("sweep.toml", "out", workers=1).ran == 1
    assert run_sweep("sweep.toml", "out", workers=1).ran == 0
    if changed == "data":
        np.save("x.npy", np.eye(6, 4) + 2.0)
    elif changed == "model":
        (tmp_path / "net.py").write_text(model.replace("ReLU", "Tanh"))
    else:
        monkeypatch.setattr("initscope.distributed.declaration.code_digest", lambda: "edited")
    with pytest.raises(InputError, match="other options, data, model files or code"):
        run_sweep("sweep.toml", "out", workers=1)


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_every_quantity(quantity):
    run = {"architecture": "", "width": None, "depth": None, "initializer": "he", "activation": None, "data": "digits",
           "seed": 0, "quantity": quantity, "model": "dense64-relu-dense10"}  # fmt: skip
    options = {"pairs": 10, "draws": 2, "steps": 60, "rate": 3e-3, "batch": 64, "normalize": None, "limit": 400}
    images = load_images("digits", 0, 10, None, 400)
    job = {"run": run, "options": options, "contents": {"data": images_digest("digits", images), "model": ""}}
    rows = rows_of(job)
    assert rows == rows_of(job)
    if quantity == "train":
        assert rows[0]["accuracy"] > 0.5  # chance is .1
        assert 0 < rows[0]["accuracy_se"] < 0.06
    else:
        assert [row["layer"] for row in rows][-3:] == ["dense1", "relu1", "dense2"]


def test_two_places_to_run_are_refused(tmp_path):
    with pytest.raises(InputError, match="choose one"):
        run_sweep(tmp_path / "none.toml", tmp_path, workers=1, dask="tcp://127.0.0.1:1")


def test_the_page_begins_with_its_phase_diagrams(tmp_path):
    """54 curves leave room for the diagrams, and a few of them are shown."""
    from initscope.distributed.summary import PAGE, write_summary

    grid = [(gain, depth) for gain in (0.5, 1.0, 2.0) for depth in (2, 5, 9)]
    rows = [
        {"run": f"{gain} {depth} {seed}", "status": "done", "quantity": "predict", "architecture": "a", "model": "a",
         "width": 8, "depth": depth, "initializer": f"lecun:gain={gain}", "activation": None, "data": f"d{seed}",
         "seed": 0, "row": row, "cosine": 0.5, "angle": 1.0 + row * gain, "rms_ratio": gain**row}
        for gain, depth in grid for seed in range(6) for row in (0, 1)
    ]  # fmt: skip
    write_summary(tmp_path, rows)
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert page.count("<svg") == 12 + 6
    size = page.index("Log10 of the RMS ratio (output / input) over gain and depth (predicted, lecun, d0)")
    assert page.index("Angle ratio (output / input) over gain and depth") < size < page.index("Mean cosine of pairs")


def trained(law="he", accuracy=0.5, **numbers):
    """The row of a training."""
    run = {"run": f"{law} {numbers}", "status": "done", "quantity": "train", "architecture": "a", "activation": None,
           "data": "d", "initializer": law, "accuracy": accuracy, "width": None, "depth": None}  # fmt: skip
    return run | numbers


def test_one_number_is_an_axis_of_lines_with_errors_over_the_runs():
    from initscope.distributed.summary import _figures

    accuracies = {2: [0.5, 0.7], 5: [0.9, 0.9], 9: [0.1, 0.3]}
    rows = [
        trained(law, accuracy, depth=depth, seed=seed)
        for law in ("he", "lecun") for depth, values in accuracies.items() for seed, accuracy in enumerate(values)
    ]  # fmt: skip
    ((axes, says),) = _figures(rows)
    assert says == "Accuracy over depth (d); means over all else, bars: two standard errors"
    assert [bars.get_label() for bars in axes.containers] == ["trained, he", "trained, lecun"]
    dots, _, (bars,) = axes.containers[0]
    assert dots.get_xydata() == pytest.approx(np.array([[2, 0.6], [5, 0.9], [9, 0.2]]))
    # Two runs .2 apart: their standard error is .1.
    assert [np.ptp(ends[:, 1]) for ends in bars.get_segments()] == pytest.approx([0.4, 0.0, 0.4])


def test_two_numbers_are_a_map_where_both_have_three_values_and_lines_where_not():
    from initscope.distributed.summary import _figures

    def drawn(widths, depths):
        return _figures([trained(width=width, depth=depth) for width in widths for depth in depths])

    ((axes, says),) = drawn((8, 16), (2, 5, 9))
    assert says.startswith("Accuracy over depth (d)")
    assert [bars.get_label() for bars in axes.containers] == ["trained, he, width 8", "trained, he, width 16"]
    ((_, says),) = drawn((8, 16, 32), (2, 5, 9))
    assert says.startswith("Accuracy over width and depth (trained, he, d)")
    assert drawn((8,), (2,)) == []


def test_laws_stand_side_by_side_where_no_number_varies():
    from initscope.distributed.summary import _figures

    ((axes, says),) = _figures([trained(law, depth=2) for law in ("he", "orthogonal")])
    assert says.startswith("Accuracy over initializer")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["he", "orthogonal"]


def test_weight_laws_are_not_averaged_and_equal_predictions_share_a_line(tmp_path):
    from initscope.distributed.summary import _curves, _figures

    common = {"status": "done", "quantity": "predict", "architecture": "dense{width}*{depth}", "activation": None,
              "data": "d", "angle": 1.0, "rms_ratio": 1.0}  # fmt: skip
    rows = [
        common | {"run": f"{law} {width} {depth}", "width": width, "depth": depth, "initializer": law, "row": row,
                  "cosine": 0.5 + row / 9}
        for law in ("he", "lecun") for width in (8, 9, 10) for depth in (2, 5, 9) for row in (0, 1)
    ]  # fmt: skip
    told = [says for _, says in _figures(rows)]
    curves = {says: axes for axes, says in _curves(rows, 6)}
    for law in ("he", "lecun"):
        assert f"Angle ratio (output / input) over width and depth (predicted, {law}, d); means over all else" in told
        (line,) = curves[f"Mean cosine of pairs after each layer: dense{{width}}*5, {law}, d"].lines
        assert line.get_label() == "predicted, any width"
