"""Make the figures of docs/injectivity.rst.

``python docs/figures/make_injectivity.py collisions 50`` (then 200, 1000) runs the witness search for one size, a few
minutes each, and keeps the numbers in injectivity_collisions.json; without arguments the figures are drawn from there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

from initscope._utils.files import atomic_path, write_text
from initscope.injectivity import thresholds
from initscope.reproductions import collision_search, get, stability_curve
from initscope.reproductions.collision_search import CollisionCurve, CollisionPoint
from initscope.theory.injectivity import order_parameter

HERE = Path(__file__).parent
NUMBERS = HERE / "injectivity_collisions.json"
ALPHAS = {50: (5.6, 6.0, 6.2, 6.4, 6.6, 6.8), 200: (6.0, 6.2, 6.3, 6.4, 6.5, 6.6), 1000: (6.0, 6.2, 6.3, 6.4, 6.5)}
DRAWS = {50: 3, 200: 3, 1000: 2}
SECONDS = 60


def known() -> CollisionCurve:
    points = json.loads(NUMBERS.read_text())["points"] if NUMBERS.exists() else []
    return CollisionCurve(SECONDS, tuple(CollisionPoint(**point) for point in points))


def collisions(n: int) -> None:
    points: tuple[CollisionPoint, ...] = ()
    for alpha in ALPHAS[n]:
        points += collision_search.run([n], [alpha], draws=DRAWS[n], seconds=SECONDS).points
        print(points[-1], file=sys.stderr, flush=True)
        others = tuple(point for point in known().points if point.n != n)
        curve = CollisionCurve(SECONDS, tuple(sorted((*others, *points), key=lambda point: (point.n, point.alpha))))
        write_text(NUMBERS, json.dumps(curve.to_dict(), indent=1) + "\n")


def figures() -> None:
    matplotlib.rcParams.update({"svg.hashsalt": "initscope", "svg.fonttype": "none"})  # the same file every time
    results = {
        "thresholds": thresholds(),
        "order_parameter": order_parameter(6.0),
        "stability": stability_curve.run(draws=50),
        "collisions": known(),
        "deep": get("injectivity-deep-tightness").run("full").result,
        "inverse": get("injectivity-inverse-lipschitz").run("full").result,
        "image": get("injectivity-image-geometry").run("full").result,
    }
    for name, result in results.items():
        with atomic_path(HERE / f"injectivity_{name}.svg") as path:
            figure = result.figure() if hasattr(result, "figure") else result.plot().figure
            figure.savefig(path, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    if sys.argv[1:2] == ["collisions"]:
        collisions(int(sys.argv[2]))
    else:
        figures()
