"""What CONTRIBUTING says of adding things holds: a dummy of each is added in its one place, and used."""

import json
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope import graph, plan
from initscope.data.image_set import ImageSet
from initscope.embed import SignHash, load_hasher, save_hasher
from initscope.initializers import He
from initscope.inspection import judge
from initscope.inspection._checks import declaration
from initscope.plan import Plan
from initscope.theory.activations import activation


def added_module(monkeypatch, name, **contents):
    """A new file of the package, as far as imports can tell."""
    module = types.ModuleType(name)
    vars(module).update(contents)
    monkeypatch.setitem(sys.modules, name, module)


def test_an_activation_is_one_row(monkeypatch):
    class Bump(nn.Module):
        def forward(self, x):
            return x * torch.exp(-x * x)

    sigma = activation(lambda x: x * np.exp(-x * x) if isinstance(x, np.ndarray) else x * torch.exp(-x * x), kinks=())
    row = graph.ActivationRow("bump", Bump, lambda module: sigma)
    monkeypatch.setattr("initscope.graph.activations.ACTIVATIONS", (*graph.ACTIVATIONS, row))
    monkeypatch.setattr("initscope.graph.ACTIVATIONS", (*graph.ACTIVATIONS, row))
    model = initscope.models.load_model("dense300-bump-dense20", input_shape=(8,))
    x, y = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    predicted = initscope.predict(model, x, y, He())
    measured = initscope.measure(model, x, y, initializer=He(), draws=6)
    assert predicted.rows[2].role == measured.rows[2].role == "activation"
    assert predicted.rows[2].status == "quadrature"
    assert abs(predicted.cosine[2] - measured.cosine[2]).max() < 0.2
    seen = initscope.measurement.observe(model, torch.cat([x, y]), pairs=5)
    assert seen.dead_fraction[2] == 0


def test_a_rule_is_one_function():
    class Negate(nn.Module):
        def forward(self, x):
            return -x

    @initscope.rule(Negate)
    def negate(module, state, context):
        return state.scaled(-1.0)

    model = nn.Sequential(nn.Linear(4, 50), Negate(), nn.ReLU())
    predicted = initscope.predict(model, torch.eye(4)[:2], torch.eye(4)[2:], He())
    assert {row.status for row in predicted.rows} == {"closed form"}


def test_a_weight_law_is_a_class_and_a_line(monkeypatch, capsys):
    from initscope.cli import main
    from initscope.initializers import INITIALIZERS, named

    monkeypatch.setitem(INITIALIZERS, "half-he", lambda: He(gain=1.0))
    assert named("half-he").gain == 1.0
    with pytest.raises(initscope.errors.InputError, match="half-he"):
        named("unknown")
    main(["predict", "dense20-relu", "--input-shape", "8", "--pairs", "2", "--initializer", "he", "--format", "json"])
    assert json.loads(capsys.readouterr().out)["rows"]


def test_a_planner_is_one_file(monkeypatch, capsys):
    from initscope.cli.plan import _command, _summary

    @dataclass(frozen=True)
    class CoinPlan(Plan):
        planner = "coins"
        unit = "coins"
        statements: ClassVar[dict[str, str]] = {"exact": "the binomial law"}
        exact: int

        def failures(self, size, trials, generator, images=None):
            return int((generator.random((trials, size)) < 0.5).all(axis=1).sum())

    def coins(*, eps: float, delta: float, most: int = 64) -> CoinPlan:
        """How many coins, so that not all fall on one side?

        Parameters
        ----------
        eps
            Not used.
        delta
            Probability of failure.
        most
            The largest number tried.
        """
        exact = next(n for n in range(1, most + 1) if 0.5**n <= delta)
        return CoinPlan(eps=eps, delta=delta, assumptions=("fair coins",), exact=exact)

    # Annotations of a local class are found by its name.
    coins.__annotations__["return"] = Plan
    _command(coins, checked=False)(format="json", delta=0.1)
    assert json.loads(capsys.readouterr().out)["exact"] == 4
    _command(coins, checked=True)(format="json", delta=0.1)
    found = json.loads(capsys.readouterr().out)
    assert found["low"] <= 0.5**4 <= found["high"]
    assert _summary(coins).startswith("How many coins")
    assert plan.check(coins(eps=0.1, delta=0.3), trials=200, seed=1).holds


def test_a_check_is_one_declaration(monkeypatch, capsys):
    from initscope.cli import main

    monkeypatch.setattr(declaration, "ALL", kept := [*declaration.ALL])
    monkeypatch.setattr("initscope.inspection._checks.ALL", kept)

    @declaration.check("IS899", "many-rows", "error", message="{value:g} ops.", why="a test", advice="use fewer",
                       threshold=2.0, unit="ops")  # fmt: skip
    def many_rows(evidence, threshold):
        """Many ops."""
        count = len(evidence.seen.rows)
        return declaration.Hit(0, float(count)) if count > threshold else None

    seen = initscope.measurement.observe(nn.Sequential(nn.Linear(4, 9), nn.ReLU()), torch.rand(8, 4), pairs=4)
    assert [finding.value for finding in judge(seen) if finding.name == "many-rows"] == [3.0]
    assert "many-rows" not in {v.name for v in judge(seen, initscope.inspection.Thresholds(many_rows=5))}
    with pytest.raises(SystemExit) as stopped:
        main(["inspect", "dense9-relu", "--input-shape", "4", "--pairs", "4", "--fail-on", "many-rows"])
    assert stopped.value.code == 1
    assert "many-rows" in capsys.readouterr().out


def test_a_hash_is_one_file_and_a_line(monkeypatch, tmp_path):
    class Mine(SignHash):
        pass

    Mine.__module__, Mine.__qualname__ = "initscope.embed.mine", "Mine"
    added_module(monkeypatch, "initscope.embed.mine", Mine=Mine)
    monkeypatch.setitem(initscope.embed.persistence.HASHERS, "mine", "mine:Mine")
    rows = np.random.default_rng(0).standard_normal((30, 6))
    fitted = Mine(bits=16).fit(rows)
    save_hasher(fitted, tmp_path / "mine.hash")
    np.testing.assert_array_equal(load_hasher(tmp_path / "mine.hash").transform(rows), fitted.transform(rows))


def test_a_data_set_is_one_loader_and_a_line(monkeypatch):
    def squares(*, limit=None, side: int = 4):
        images = np.zeros((3, 1, side, side), dtype=np.float32)
        images[:, :, 1:-1, 1:-1] = 1
        return ImageSet(images[:limit], name="squares")

    added_module(monkeypatch, "initscope.data.squares", squares=squares)
    monkeypatch.setitem(initscope.data.named.LOADERS, "squares", "squares:squares")
    assert initscope.data.load("squares", side=6).images.shape == (3, 1, 6, 6)


def test_contributing_names_files_that_are_there():
    """Every path that CONTRIBUTING gives, below src/initscope or the root, exists."""
    root = Path(__file__).parents[1]
    if not (root / "CONTRIBUTING.md").exists():
        pytest.skip("only a checkout has CONTRIBUTING.md")
    words = (root / "CONTRIBUTING.md").read_text(encoding="utf-8").split("`")[1::2]
    paths = [word for word in words if "/" in word and " " not in word and not word.startswith((".", "-"))]
    missing = [word for word in paths if not any((place / word).exists() for place in (root, root / "src/initscope"))]
    assert not missing
