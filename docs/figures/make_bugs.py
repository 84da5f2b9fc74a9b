"""Write docs/ten_bugs.rst: ten bugs, each one line of code, with what `inspect` reports before and after the fix.

    python docs/figures/make_bugs.py

Every block of output in the page is what the code above it printed.
"""

from __future__ import annotations

import contextlib
import io
import textwrap
import warnings
from pathlib import Path

import torch

PAGE = Path(__file__).parents[1] / "ten_bugs.rst"
INTRODUCTION = """\
Ten bugs, before and after
==========================

Each network below has a bug in one line. The page shows the report of `initscope.inspect`, the fix, and the report
after the fix. ``python docs/figures/make_bugs.py`` runs the code and writes this page.

All examples pass the targets. They pass the loss only if it is part of the bug. No trial is run. These small networks
can learn the digits with some of the bugs, such as a forgotten activation. With a trial, such a bug is reported as
information instead of a warning (:doc:`accuracy_of_checks`). The data are the digits of scikit-learn. Every example
starts with this code:
"""
SETUP = """\
import torch
import torch.nn.functional as F
from torch import nn

import initscope

digits = initscope.data.load("digits").take(200)
images = torch.as_tensor(digits.images).flatten(1)
images, labels = (images - images.mean()) / images.std(), torch.as_tensor(digits.labels).long()
torch.manual_seed(0)


def check(model, data=images, **options):
    quick = {"pairs": 50, "alternatives": False, "prediction": False, "trial": False}
    report = initscope.inspect(model, data, targets=labels, **(quick | options))
    for finding in (*report.errors, *report.warnings):
        print(finding)
    print(report.headline.partition(" (")[0])
"""
BUGS = (
    (
        "Layers that are copies",
        "``nn.TransformerEncoder`` copies the given layer, including its weights.",
        """\
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        encoder = nn.TransformerEncoder(layer, num_layers=4)
        model = nn.Sequential(nn.Unflatten(1, (4, 16)), encoder, nn.Flatten(), nn.Linear(64, 10))
        check(model)
        """,
        """\
        initscope.initializers.glorot_(model)
        check(model)
        """,
    ),
    (
        "Inputs from 0 to 255",
        "The inputs are raw images with values from 0 to 255.",
        """\
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        raw = torch.as_tensor(digits.images).flatten(1) * 255
        check(model, raw)
        """,
        """\
        check(model, (raw - raw.mean()) / raw.std())
        """,
    ),
    (
        "Forty layers with Glorot's initialization",
        "Glorot's variance is meant for tanh. With ReLU, it halves the mean square at every layer.",
        """\
        layers = [part for _ in range(40) for part in (nn.Linear(64, 64), nn.ReLU())]
        model = initscope.initializers.glorot_(nn.Sequential(*layers, nn.Linear(64, 10)))
        check(model)
        """,
        """\
        initscope.initializers.looks_linear_(model)
        check(model)
        """,
    ),
    (
        "Sigmoids in a deep stack",
        "Each sigmoid passes at most a quarter of the gradient.",
        """\
        layers = [part for _ in range(10) for part in (nn.Linear(64, 64), nn.Sigmoid())]
        check(nn.Sequential(*layers, nn.Linear(64, 10)))
        """,
        """\
        layers = [part for _ in range(10) for part in (nn.Linear(64, 64), nn.ReLU())]
        check(initscope.initializers.he_(nn.Sequential(*layers, nn.Linear(64, 10))))
        """,
    ),
    (
        "A forgotten activation",
        "Without activations, the three layers are one linear map.",
        """\
        check(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)))
        """,
        """\
        check(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
        """,
    ),
    (
        "A detached branch",
        "A ``detach`` from debugging is still in the code.",
        """\
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.stem, self.body, self.head = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)

            def forward(self, x):
                x = F.relu(self.stem(x)).detach()
                return self.head(F.relu(self.body(x)))


        check(Net())
        """,
        """\
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.stem, self.body, self.head = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)

            def forward(self, x):
                x = F.relu(self.stem(x))
                return self.head(F.relu(self.body(x)))


        check(Net())
        """,
    ),
    (
        "Constant weights",
        "All units of one layer compute the same value.",
        """\
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        nn.init.constant_(model[2].weight, 0.01)
        check(model)
        """,
        """\
        torch.nn.init.kaiming_normal_(model.get_submodule("2").weight)
        check(model)
        """,
    ),
    (
        "A softmax before a loss that contains a softmax",
        "``F.cross_entropy`` expects logits.",
        """\
        layers = nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
        check(nn.Sequential(*layers, nn.Softmax(dim=1)), loss=F.cross_entropy)
        """,
        """\
        check(nn.Sequential(*layers), loss=F.cross_entropy)
        """,
    ),
    (
        "A softmax over the wrong axis",
        "The softmax runs over the queries instead of the keys.",
        """\
        class Attention(nn.Module):
            def __init__(self, axis):
                super().__init__()
                self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
                self.head, self.axis = nn.Linear(64, 10), axis

            def forward(self, x):
                x = x.unflatten(1, (4, 16))
                weights = torch.softmax(self.query(x) @ self.key(x).mT / 4, dim=self.axis)
                return self.head((x + weights @ self.value(x)).flatten(1))


        check(Attention(axis=1))
        """,
        """\
        check(Attention(axis=2))
        """,
    ),
    (
        "Weights of the head that are too large",
        "The logits are far too large, so the first steps only make them smaller.",
        """\
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        nn.init.normal_(model[2].weight, std=10.0)
        check(model)
        """,
        """\
        torch.nn.init.zeros_(model.get_submodule("2").weight)
        check(model)
        """,
    ),
)


def main() -> None:
    """Run all of them and write the page."""
    parts = [INTRODUCTION, _code(SETUP)]
    for number, (title, text, wrong, right) in enumerate(BUGS, 1):
        scope: dict[str, object] = {}
        _run(SETUP, scope)
        heading = f"{number}. {title}"
        parts += [f"\n{heading}\n{'-' * len(heading)}\n\n{text}\n"]
        for code in (wrong, right):
            code = textwrap.dedent(code)
            parts += [_code(code), _block(".. code-block:: text", _run(code, scope))]
    PAGE.write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")


def _run(code: str, scope: dict[str, object]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, "<page>", "exec"), scope)
    return printed.getvalue()


def _code(code: str) -> str:
    return _block(".. code-block:: python", code)


def _block(directive: str, text: str) -> str:
    lines = [line for whole in text.rstrip().splitlines() for line in _wrapped(whole)]
    return f"{directive}\n\n" + "\n".join(f"    {line}" if line else "" for line in lines) + "\n"


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, 116, subsequent_indent="    ") if len(line) > 118 else [line]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
