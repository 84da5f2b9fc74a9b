"""Every cache is listed in ``caches.toml`` with the reason why it cannot answer for something else."""

import ast
import tomllib
from pathlib import Path

import initscope

PACKAGE = Path(initscope.__file__).parent
LISTED = tomllib.loads(Path(__file__).with_name("caches.toml").read_text(encoding="utf-8"))
CONTAINERS = ("dict", "list", "set", "deque", "OrderedDict", "WeakKeyDictionary", "WeakValueDictionary", "WeakSet")


def name_of(node):
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def decorated(node, owner=""):
    """Kind and name of every cached function and of every class with cached properties."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            names = {name_of(decorator) for decorator in child.decorator_list}
            if names & {"cache", "lru_cache"}:
                yield "functions", child.name
            if "cached_property" in names:
                yield "objects", owner
        yield from decorated(child, child.name if isinstance(child, ast.ClassDef) else owner)


def filled(module):
    """Names of a module that begin as empty containers."""
    for node in module.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            value = node.value
            displays = isinstance(value, (ast.Dict, ast.List)) and not ast.unparse(value).strip("{}[]")
            called = isinstance(value, ast.Call) and not value.args and name_of(value) in CONTAINERS
            if displays or called:
                yield "modules", ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])


def test_every_cache_is_listed():
    found = {"functions": set(), "objects": set(), "modules": set()}
    for path in PACKAGE.rglob("*.py"):
        module = ast.parse(path.read_text(encoding="utf-8"))
        for kind, name in (*decorated(module), *filled(module)):
            found[kind].add(f"{path.relative_to(PACKAGE).as_posix()}:{name}")
    missing = {kind: names - set(LISTED[kind]) for kind, names in found.items()}
    assert not any(missing.values()), missing
    assert all(reason for entries in LISTED.values() for reason in entries.values())
