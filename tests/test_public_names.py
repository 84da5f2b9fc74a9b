"""Names that users meet: few at the top level, one class for one name, docstrings that say what goes in and out."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest

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


DOCUMENTED = ("inspection", "propagate", "graph", "measurement", "invert", "class_geometry")


def documented_functions():
    for package in DOCUMENTED:
        module = importlib.import_module(f"initscope.{package}")
        for name in module.__all__:
            if inspect.isfunction(getattr(module, name)):
                yield pytest.param(getattr(module, name), id=f"{package}.{name}")


def section(text, title):
    """The lines of a section of a docstring, up to the next one."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", text, re.DOTALL | re.MULTILINE)
    return None if found is None else found[1]


@pytest.mark.parametrize("function", list(documented_functions()))
def test_docstrings_say_what_goes_in_and_comes_out(function):
    signature, text = inspect.signature(function), inspect.getdoc(function) or ""
    if signature.parameters:
        entries = re.findall(r"^(\S[^:\n]*)", section(text, "Parameters") or "", re.MULTILINE)
        named = {name.strip(" *") for entry in entries for name in entry.split(",")}
        assert not set(signature.parameters) - named
    assert signature.return_annotation in (None, "None") or section(text, "Returns") or section(text, "Yields")


def test_sections_of_docstrings_of_the_theory_start_at_the_margin():
    """Otherwise pages show them as a quotation."""
    indented = []
    for path in sorted((PACKAGE / "theory").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node) or ""
                if re.search(r"^ +(Parameters|Returns|Attributes|Notes)\n +-+$", text, re.MULTILINE):
                    indented.append(f"{path.name}: {getattr(node, 'name', 'module')}")
    assert not indented
