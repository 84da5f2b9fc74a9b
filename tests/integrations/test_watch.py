"""A watch over a plain training loop, its scalars, and TensorBoard and W&B with the real packages."""

import warnings

import pytest
import torch
from torch import nn

import initscope
from initscope.errors import InputError
from initscope.integrations import (
    TrainingStopped,
    Watch,
    aim_logger,
    mlflow_logger,
    scalars,
    tensorboard_logger,
    wandb_logger,
)

DATA = torch.rand(48, 8, generator=torch.Generator().manual_seed(0))


def network(depth=2, gain=1.0):
    layers = [layer for _ in range(depth) for layer in (nn.Linear(8, 8, bias=False), nn.ReLU())]
    model = initscope.initializers.he_(
        nn.Sequential(*layers, nn.Linear(8, 2)), generator=torch.Generator().manual_seed(0)
    )
    with torch.no_grad():
        for layer in model:
            if isinstance(layer, nn.Linear):
                layer.weight *= gain
    return model


def test_a_healthy_network_is_watched_in_silence(tmp_path):
    seen = []
    watch = Watch(DATA, pairs=16, out=tmp_path / "start.html", log=lambda values, step: seen.append((step, values)))
    model = network()
    assert watch.start(model).healthy
    assert (tmp_path / "start.html").stat().st_size > 10_000
    assert [watch.step(model, epoch) for epoch in (1, 2)] == [False, False]
    assert [step for step, _ in seen] == [0, 1, 2]
    assert watch.to_pandas()["epoch"].tolist() == [1, 2]
    assert watch.to_arrow().num_rows == 2
    assert "2 epochs" in repr(watch)
    assert len(watch.plot().lines) == 3


def test_the_fix_of_what_training_has_caused_is_not_new_initial_weights():
    """The same finding has them as its fix if it was there at the start, or if nothing is known of the start."""
    for gain, later, initial in ((1, 100, False), (100, 1, True)):
        watch, model = Watch(DATA, pairs=16, warn_on="exploding"), network(depth=4, gain=gain)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            watch.start(model)
            with torch.no_grad():
                for layer in model:
                    if isinstance(layer, nn.Linear):
                        layer.weight *= later
            watch.step(model, 1)
        (warning,) = [str(one.message) for one in said if "IS106 exploding" in str(one.message)]
        assert ("initscope.initializers." in warning) == initial
        assert ("lower the learning rate" in warning) != initial


def test_what_appears_is_told_once_and_stops():
    """Weights grow a hundredfold in each of four layers: the signal explodes, which is told at once and only once."""
    watch = Watch(DATA, pairs=16, warn_on="exploding", stop_on="exploding, not-finite")
    model = network(depth=4)
    watch.start(model)
    assert not watch.step(model, 1)
    with torch.no_grad():
        for layer in model:
            if isinstance(layer, nn.Linear):
                layer.weight *= 100
    with pytest.warns(UserWarning, match="step 2: IS106 exploding"):
        assert watch.step(model, 2)
    assert [finding.name for finding in watch.stopped_by] == ["exploding"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watch.step(model, 3)


@pytest.mark.parametrize(("value", "layer"), [(float("nan"), 0), (float("inf"), -1)])
def test_weights_that_are_no_longer_finite_are_a_finding_and_stop(value, layer):
    logged = []
    model, options = network(), {"pairs": 16, "warn_on": "", "log": lambda values, step: logged.append(values)}
    watch = Watch(DATA, stop_on="not-finite,exploding", **options)
    watch.start(model)
    with torch.no_grad():
        model[layer].weight[0, 0] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert watch.step(model, 1)
    assert watch.rows[-1]["findings"] == "not-finite"
    assert "weight holds NaN or infinite values" in str(watch.stopped_by[0])
    assert logged[-1]["initscope/finding/not-finite"] == 1
    assert not Watch(DATA, stop_on="collapse", **options).step(model, 1)
    with pytest.warns(UserWarning, match="step 1: IS101 not-finite"):
        Watch(DATA, pairs=16).step(model, 1)
    with pytest.raises(TrainingStopped, match="not-finite"):
        Watch(DATA, stop_on="error", stop="raise", **options).step(model, 1)
    assert Watch(DATA, pairs=16)(model, 1)["findings"] == "not-finite"


def test_it_raises_if_asked_to():
    watch = Watch(DATA, pairs=16, stop_on="error", stop="raise", warn_on="")
    with pytest.raises(TrainingStopped, match="exploding"):
        watch.start(network(depth=4, gain=100))


def test_bad_words_are_refused():
    with pytest.raises(InputError, match="did you mean exploding"):
        Watch(DATA, stop_on="explodes")
    with pytest.raises(InputError, match=r"stop_on nan: there is no such check \(did you mean not-finite\?\)"):
        Watch(DATA, stop_on="error, nan")
    with pytest.raises(InputError, match=r"warn_on Inf: .* not-finite\?"):
        Watch(DATA, warn_on="Inf")
    with pytest.raises(InputError, match="stop = 'now'"):
        Watch(DATA, stop="now")


def test_every_second_call():
    watch = Watch(DATA, pairs=16, every=2)
    model = network()
    for step in range(5):
        watch.step(model, step)
    assert [row["epoch"] for row in watch.rows] == [0, 2, 4]


@pytest.mark.parametrize("depth", [2, 60])
def test_scalars_are_few(depth):
    values = scalars(initscope.inspect(network(depth), DATA, pairs=16, alternatives=False, prediction=False))
    assert 10 <= len(values) <= 50
    assert all(isinstance(value, float) for value in values.values())
    assert {"healthy", "size", "gradient", "cosine", "rank"} <= {name.split("/")[1] for name in values}


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    watch = Watch(DATA, pairs=16, log=tensorboard_logger(tmp_path))
    model = network()
    watch.start(model)
    watch.step(model, 1)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [event.step for event in events.Scalars("initscope/healthy")] == [0, 1]
    assert len(events.Tags()["scalars"]) >= 10


def test_weights_and_biases(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the package itself
        with wandb.init(project="test", dir=tmp_path) as run:
            watch = Watch(DATA, pairs=16, log=wandb_logger())
            watch.start(network())
            assert run.summary["initscope/healthy"] == 1
            assert run.summary["initscope/step"] == 0
            assert len([name for name in run.summary.keys() if name.startswith("initscope/")]) >= 10  # noqa: SIM118


def test_loggers_say_what_is_missing(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(initscope.errors.MissingDependencyError, match=r"initscope\[integrations\]"):
        wandb_logger()


def test_mlflow_and_aim(monkeypatch):
    """Stands in for the two libraries with the functions that they document; names have only what MLflow allows."""
    import sys
    import types

    logged = []
    fake = types.ModuleType("mlflow")
    fake.log_metrics = lambda values, step, **more: logged.append((values, step, more))
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    mlflow_logger()({"initscope/size/00.a(b)": 1.0}, 3)
    mlflow_logger("abc")({"x": 2.0}, 4)
    assert logged == [({"initscope/size/00.a_b_": 1.0}, 3, {}), ({"x": 2.0}, 4, {"run_id": "abc"})]

    tracked = []
    run = types.SimpleNamespace(track=lambda value, name, step: tracked.append((value, name, step)))
    watch = Watch(DATA, pairs=16, log=[aim_logger(run)])
    watch.start(network())
    assert (1.0, "initscope/healthy", 0) in tracked
    monkeypatch.setitem(sys.modules, "aim", None)
    with pytest.raises(initscope.errors.MissingDependencyError, match="pip install aim"):
        aim_logger()
