"""In these tests a rule that fails is an error, not a row."""

import pytest


@pytest.fixture(autouse=True)
def strict_rules(monkeypatch):
    monkeypatch.setenv("INITSCOPE_STRICT_RULES", "1")
