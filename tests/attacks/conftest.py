"""Keep the attacks out of the collection: some need what other systems lack; `test_attacks.py` runs a part of each."""


def pytest_ignore_collect(collection_path):
    """Collect tests only."""
    return True if collection_path.suffix == ".py" and not collection_path.name.startswith("test_") else None
