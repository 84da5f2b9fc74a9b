"""Fixtures and helpers that every test may use."""
