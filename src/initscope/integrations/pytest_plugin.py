"""The pytest plugin: the fixture ``initscope_checks``, whose ``assert_healthy(model, data)`` fails with the errors.

pytest loads it wherever initscope is installed. It imports nothing else until the fixture is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from initscope.inspection import Report

__all__ = ["Checks", "initscope_checks", "pytest_addoption"]


def pytest_addoption(parser: Any) -> None:
    """Add the option ``--initscope-report FOLDER`` for the pages of failing models."""
    group = parser.getgroup("initscope")
    group.addoption("--initscope-report", default="", help="Write the pages of failing models to this folder.")


class Checks:
    """Methods of the fixture ``initscope``."""

    def __init__(self, name: str, folder: str) -> None:
        self._name, self._folder = name, folder

    def inspect(self, model: Any, data: Any, **options: Any) -> Report:
        """Run `initscope.inspect` without alternatives, which a test does not need."""
        from initscope.inspection import inspect

        return inspect(model, data, **({"pairs": 64, "alternatives": False, "prediction": False} | options))

    def assert_healthy(self, model: Any, data: Any, *, ignore: tuple[str, ...] = (), **options: Any) -> Report:
        """Fail if the report has an error; ``ignore`` holds codes or names of checks that do not count."""
        __tracebackhide__ = True
        report = self.inspect(model, data, **options)
        from initscope.inspection import Unhealthy

        try:
            report.assert_healthy(ignore=ignore)
        except Unhealthy as error:
            raise Unhealthy(f"{error}{self._page(report)}") from None
        return report

    def _page(self, report: Report) -> str:
        if not self._folder:
            return ""
        from pathlib import Path

        safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in self._name)
        return f"\npage: {report.to_html(Path(self._folder) / f'{safe}.html')}"


@pytest.fixture
def initscope_checks(request: Any) -> Checks:
    """Return ``initscope_checks.assert_healthy(model, data)``, and ``initscope_checks.inspect``."""
    return Checks(request.node.name, request.config.getoption("--initscope-report"))
