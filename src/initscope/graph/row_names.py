"""Names of rows: position of an op in the model, and the number of the call."""

from __future__ import annotations

from collections import Counter

__all__ = ["RowNames"]


class RowNames:
    """Gives every op its own name: ``layer1.0.conv1``, ``layer1.0.add``, ``fc``, and ``fc (2)`` when called again."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def unique(self, name: str) -> str:
        """Return ``name``, or the first free of ``name (2)``, ``name (3)`` …"""
        self._seen[name] += 1
        count = self._seen[name]
        return name if count == 1 else f"{name} ({count})"

    def function(self, path: str, function: str) -> str:
        """Return the name of a call of ``function`` by the module at ``path``."""
        plain = function.strip("_") or function
        return self.unique(f"{path}.{plain}" if path else plain)

    @staticmethod
    def inputs(names: list[str]) -> list[str]:
        """Return ``input`` for a single input, otherwise ``input (name)``."""
        return ["input"] if len(names) == 1 else [f"input ({name})" for name in names]
