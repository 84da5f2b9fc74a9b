"""``--apply`` writes what the report suggests, and nothing where there is nothing to fix."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import initscope
from initscope.cli import main
from initscope.inspection.finding import Fix
from initscope.inspection.fixes import with_fix
from initscope.models import load_model

EXAMPLES = Path(__file__).parents[2] / "examples"


def deep():
    sys.path.insert(0, str(EXAMPLES))
    try:
        import mynet
    finally:
        sys.path.pop(0)
    return mynet.deep()


def test_the_example_of_the_readme_has_one_fix_for_all_seeds_or_ties():
    data = initscope.data.load("digits").take(200)
    first, tied = [], []
    for seed in range(2):
        report = initscope.inspect(deep(), data, pairs=20, seed=seed, prediction=False)
        assert "collapse" in {finding.name for finding in report.errors}
        assert report.fix.helped
        first.append(report.fix.name)
        tied.append({fix.name for fix in report.fixes if fix.tie} | {report.fix.name})
    assert len(set(first)) == 1 or all(name in names for names in tied for name in first), (first, tied)


@pytest.mark.parametrize(("code", "writes"), [
    ('torch.nn.init.zeros_(model.get_submodule("2").weight)', True),
    ("initscope.initializers.he_(model)", True),
    ('model.set_submodule("1", torch.nn.Identity())', False),
    ("model.requires_grad_(True)", False),
    ("data = (data - data.mean()) / data.std()", False),
    ("lr = 0.01", False),
])  # fmt: skip
def test_only_fixes_of_weights_are_applied(code, writes):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fixed = with_fix(model, Fix("a fix", code, "advice"))
    assert (fixed is not None) is writes
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    if writes:
        again = with_fix(model, Fix("a fix", code, "advice"))
        assert all(torch.equal(a, b) for a, b in zip(fixed.parameters(), again.parameters(), strict=True))
        assert not torch.equal(fixed[2].weight, model[2].weight)


def test_apply_writes_the_suggested_fix(tmp_path, capsys):
    """A head that is too large: the line that is suggested, not another initializer."""
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\n\ndef make():\n    torch.manual_seed(0)\n"
        "    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))\n"
        "    nn.init.normal_(model[3].weight, std=10.0)\n    return model\n"
    )
    command = ["inspect", f"{tmp_path / 'net.py'}:make", "--data", "digits", "--pairs", "16", "--no-prediction"]
    path = tmp_path / "better.pt"
    main([*command, "--no-trial", "--apply", str(path)])
    captured = capsys.readouterr()
    assert 'fix: torch.nn.init.zeros_(model.get_submodule("3").weight)' in captured.out
    weights = torch.load(path, weights_only=True)
    assert not weights["3.weight"].any()
    assert weights["1.weight"].any()


def test_a_healthy_network_is_not_written(tmp_path, capsys):
    path = tmp_path / "better.pt"
    main(
        [
            "inspect",
            "dense32-relu-dense10",
            "--data",
            "digits",
            "--pairs",
            "16",
            "--no-prediction",
            "--apply",
            str(path),
        ]
    )
    captured = capsys.readouterr()
    assert captured.out.startswith("No problems found (2 layers, ")
    assert f"weights: {path} is not written: no problems were found, so that there is nothing to fix" in captured.err
    assert not path.exists()


def test_what_was_written_has_the_weights_of_the_initializer(tmp_path, capsys):
    path, name = tmp_path / "better.pt", "dense32-relu*30-dense10"
    main(["inspect", name, "--input-shape", "16", "--pairs", "8", "--initializer", "glorot", "--no-prediction",
          "--apply", str(path)])  # fmt: skip
    assert "fix: initscope.initializers.looks_linear_(model)" in capsys.readouterr().out
    model = load_model(name, input_shape=(16,))
    model.load_state_dict(torch.load(path, weights_only=True))
    half = model.dense2.weight.shape[0] // 2
    assert torch.allclose(model.dense2.weight[:half], -model.dense2.weight[half:])  # mirrored


def digits():
    data = initscope.data.load("digits")
    return torch.as_tensor(data.images[:256]).flatten(1), torch.as_tensor(data.labels[:256])


def test_two_activations_after_the_last_layer_are_removed_together():
    """A ReLU and a softmax before cross-entropy: the trial decides which of them to remove."""
    x, y = digits()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), nn.ReLU(), nn.Softmax(1))
    options = {"loss": nn.functional.cross_entropy, "optimizer": torch.optim.Adam, "lr": 1e-3}
    report = initscope.inspect(model, x, targets=y, pairs=32, prediction=False, alternatives=False, **options)
    assert report.errors[0].code == "IS201"
    assert report.fix.code.count("torch.nn.Identity()") == 2
    assert report.fix.after > report.fix.before + 0.2


def test_the_usual_rate_of_adam_is_no_error_if_the_model_learns_late():
    """An autoencoder leaves the mean of the images after some hundred steps; with 1e-5 it does not in thousands."""
    x, _ = digits()
    for rate, level in ((1e-3, "warning"), (1e-5, "error")):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 64), nn.Sigmoid())
        options = {"loss": nn.functional.mse_loss, "optimizer": torch.optim.Adam, "lr": rate}
        report = initscope.inspect(model, x, targets=x, pairs=32, prediction=False, alternatives=False, **options)
        assert {finding.level for finding in report.findings if finding.code == "IS404"} == {level}


def test_no_learning_rate_is_suggested_for_layers_that_are_detached():
    x, y = digits()

    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.a, self.b, self.c = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)

        def forward(self, x):
            return self.c(torch.relu(self.b(torch.relu(self.a(x)))).detach())

    options = {"loss": nn.functional.cross_entropy, "optimizer": torch.optim.Adam, "lr": 1e-3}
    report = initscope.inspect(Cut(), x, targets=y, pairs=32, prediction=False, alternatives=False, **options)
    assert report.fix.name == "detached"
    assert "IS312" in {finding.caused_by for finding in report.findings if finding.code == "IS404"}
