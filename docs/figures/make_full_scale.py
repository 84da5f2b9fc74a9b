"""Gather what a run at full scale left into ``docs/full_scale.json``: ``python make_full_scale.py GALLERY``.

``initscope reproduce --all --scale full --out GALLERY`` makes the folder.
"""

import json
import sys
from pathlib import Path

KEPT = ("id", "status", "why", "ours", "published", "seconds")


def gather(folder: Path) -> list[dict]:
    """What the documentation shows of each exhibit, in the order of their names."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return [{name: shown[name] for name in KEPT} for shown in found if isinstance(shown, dict)]


if __name__ == "__main__":
    target = Path(__file__).parents[1] / "full_scale.json"
    target.write_text(json.dumps(gather(Path(sys.argv[1])), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
