"""Names that users meet: few at the top level, one class for one name, docstrings that say what goes in and out."""

import importlib
import inspect
import pkgutil
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import initscope

PACKAGE = Path(initscope.__file__).parent


def public_modules():
    """All modules whose path has no part that begins with an underscore."""
    for found in pkgutil.walk_packages([str(PACKAGE)], prefix="initscope."):
        if not any(part.startswith("_") for part in found.name.split(".")):
            yield importlib.import_module(found.name)


def test_the_top_level_has_what_a_user_types():
    names = [name for name in initscope.__all__ if not isinstance(getattr(initscope, name), ModuleType)]
    assert len(names) <= 12, names
    packages = [folder.parent.name for folder in PACKAGE.glob("*/__init__.py")]
    assert len(packages) <= 20, sorted(packages)
    assert not set(names) & set(packages)


def test_no_two_public_classes_share_a_name():
    places = defaultdict(set)
    for module in public_modules():
        for name, value in vars(module).items():
            if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_"):
                places[name].add(module.__name__)
    clashes = {name: sorted(modules) for name, modules in places.items() if len(modules) > 1}
    assert not clashes
