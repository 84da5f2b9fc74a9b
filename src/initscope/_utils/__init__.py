"""Helpers for all packages: atomic file writes, safe reading of tensors, seeded generators, compiled loops.

Each file covers one topic and imports no other package.
"""
