"""Copy the results of a run at full scale into the documentation: ``python docs/figures/make_full_scale.py GALLERY``.

Results that the folder does not have are kept. Without a folder, the script computes the statuses of the stored results
again, after a criterion was changed.

``initscope reproduce --all --scale full --out GALLERY`` makes the folder. The script writes ``docs/full_scale.json``,
the figure ``docs/_static/demo.svg``, the statuses that ``initscope reproduce --list`` shows
(``src/initscope/reproductions/full_scale_status.json``) and the table of the README between its two marks.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from pathlib import Path

from initscope.reproductions import Number, all_reproductions

DOCS = Path(__file__).parents[1]
KEPT = ("id", "status", "why", "ours", "published", "seconds")
MOST_NUMBERS = 1
"""Number of published values that the README shows of one reproduction."""
MARKS = re.compile(r"(?<=<!-- gallery -->\n).*?(?=<!-- end -->)", re.DOTALL)


def gather(folder: Path) -> list[dict]:
    """Return what the documentation shows of each reproduction, sorted by name."""
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return [{name: shown[name] for name in KEPT} for shown in results if isinstance(shown, dict)]


def rejudged(result: dict) -> dict:
    """Return a stored result with the status that its numbers have by the present criteria.

    Criteria that need more than the numbers (``holds``) keep their outcome: they held unless the status says otherwise.
    """
    declared = all_reproductions()[result["id"]]
    if result["status"] == "failed":
        return result
    ours = {name: Number(**number) for name, number in result["ours"].items()}
    failed = result["status"] == "not confirmed" and result["why"] == "the statement does not hold here"
    status, why = declared.judge(ours, holds=None if declared.holds is None else not failed, scale="full")
    return result | {"status": status, "why": why, "published": declared.published}


def counted(results: list[dict]) -> str:
    """Return a sentence with the number of reproductions of each status."""
    counts: dict[str, int] = {}
    for result in results:
        counts[result["status"]] = counts.get(result["status"], 0) + 1
    plural = {
        "agrees": "agree",
        "differs": "differ",
        "not comparable": "are not comparable",
        "not confirmed": "are not confirmed",
    }
    singular = {status: text.replace("are ", "is ") for status, text in plural.items() if text.startswith("are ")}
    words = {status: (singular if count == 1 else plural).get(status, status) for status, count in counts.items()}
    summary = ", ".join(f"{count} {words[status]}" for status, count in sorted(counts.items()))
    return f"{len(results)} reproductions at full scale: {summary}."


def table(results: list[dict]) -> str:
    """Return the table of published and reproduced values for the README."""
    lines = [counted(results), "", "| reproduction | number | published | ours |", "|---|---|---|---|"]
    for result in results:
        for name, value in list((result["published"] or {}).items())[:MOST_NUMBERS]:
            number = result["ours"].get(name)
            error = "" if number is None or number["error"] is None else f" ± {number['error']:.2g}"
            ours = "–" if number is None else f"{number['value']:.4g}{error}"
            lines.append(f"| `{result['id']}` | {name} | {value:g} | {ours} |")
    return "\n".join(lines) + "\n"


def main(folder: Path | None = None) -> None:
    """Write the files."""
    stored = DOCS / "full_scale.json"
    results = json.loads(stored.read_text(encoding="utf-8"))
    if folder is None:
        results = [rejudged(result) for result in results]
    else:
        recomputed = {result["id"]: result for result in gather(folder)}
        if "photographs" in recomputed:
            svg = (folder / "photographs.svg").read_bytes()
            recomputed["photographs"]["checksum"] = zlib.crc32(svg)
            (DOCS / "_static" / "demo.svg").write_bytes(svg)
        by_id = {result["id"]: result for result in results} | recomputed
        results = [by_id[name] for name in sorted(by_id)]
    stored.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    statuses = {result["id"]: {"status": result["status"], "why": result["why"]} for result in results}
    package = DOCS.parent / "src" / "initscope" / "reproductions"
    listed = json.dumps(statuses, indent=1, ensure_ascii=False) + "\n"
    (package / "full_scale_status.json").write_text(listed, encoding="utf-8")
    readme = DOCS.parent / "README.md"
    text = readme.read_text(encoding="utf-8")
    readme.write_text(MARKS.sub(lambda _: table(results), text), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
