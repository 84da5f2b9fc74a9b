"""`sample`: mutants over all packages in proportion to their lines, and `nearest`: which tests should notice one."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path

from mutation.operators import Mutant, mutants

TWICE = ("inspection", "injectivity", "measurement", "plan", "propagate", "theory")
"""Packages that compute standard errors, thresholds or exceptions to them: their lines count twice."""
FILES = 5
"""Files of tests that are the nearest, at most."""


@dataclass(frozen=True)
class Place:
    """A mutant in a file, whose path is relative to the root of the project."""

    path: str
    mutant: Mutant

    @property
    def package(self) -> str:
        """Name of the package of ``src/initscope``, or of the module itself."""
        return Path(self.path).parts[2].removesuffix(".py")

    def __str__(self) -> str:
        """Return file, line and change on one line."""
        old, new = (" ".join(text.split()) for text in (self.mutant.old, self.mutant.new))
        return f"{self.path}:{self.mutant.line} {self.mutant.kind}: `{old[:60]}` -> `{new[:60]}`"


def sample(root: Path, count: int, seed: int = 0) -> list[Place]:
    """Return ``count`` mutants, each package with its share by lines (largest remainder)."""
    files: dict[str, list[Path]] = {}
    for path in sorted((root / "src" / "initscope").rglob("*.py")):
        files.setdefault(Place(path.relative_to(root).as_posix(), None).package, []).append(path)
    texts = {path: path.read_text(encoding="utf-8") for paths in files.values() for path in paths}
    lines = {
        package: sum(texts[path].count("\n") for path in paths) * (1 + (package in TWICE))
        for package, paths in files.items()
    }
    share = {package: count * size / sum(lines.values()) for package, size in lines.items()}
    take = {package: int(share[package]) for package in files}
    for package in sorted(files, key=lambda name: take[name] - share[name])[: count - sum(take.values())]:
        take[package] += 1
    generator, taken = random.Random(seed), []
    for package, paths in files.items():
        if take[package]:
            all_of = [
                Place(path.relative_to(root).as_posix(), mutant) for path in paths for mutant in mutants(texts[path])
            ]
            taken += generator.sample(all_of, min(take[package], len(all_of)))
    return taken


def nearest(root: Path, place: Place) -> list[str]:
    """Return the files of tests that mention the function, bear the module's name or import it, the nearest first."""
    module = Path(place.path).with_suffix("")
    dotted = ".".join(module.parts[1:]).removesuffix(".__init__")
    names = {place.mutant.function.rpartition(".")[2], place.mutant.function.partition(".")[0]} - {""}
    stem = module.name.strip("_") if module.name != "__init__" else module.parent.name
    of_package = root / "tests" / place.package
    ranked = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        mentions = sum(len(re.findall(rf"\b{re.escape(name)}\b", text)) for name in names)
        mentions += text.count(stem) if len(stem) > 4 else 0
        near = 3 * bool(mentions) + 2 * (stem in path.stem) + 2 * (of_package in path.parents)
        near += bool(re.search(rf"\b{re.escape(dotted)}\b", text))
        if near > 1:
            ranked.append((-near, -mentions, path.relative_to(root).as_posix()))
    return [place.path, *(name for *_, name in sorted(ranked)[:FILES])]


def of_package(root: Path, place: Place) -> list[str]:
    """Return the tests of the package, or those at the top where a module has no folder of tests."""
    folder = root / "tests" / place.package
    if folder.is_dir():
        return [folder.relative_to(root).as_posix()]
    return [path.relative_to(root).as_posix() for path in sorted((root / "tests").glob("test_*.py"))]
