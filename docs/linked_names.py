"""Names of Python in the guides are links: ``plan.width``, ``ZeroSum`` and ``report.blocks()`` lead to what they name.

A literal is linked if it can mean one documented thing only. Parameters and keys stay plain, since many things have
them. A name in single backticks that the reference does not know by this name is looked up by its end, too; what runs
a reproduction leads to the reproduction.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.util.nodes import make_refnode

from initscope.reproductions import all_reproductions

OBJECTS = ("class", "function", "method", "property", "attribute", "module", "exception", "data")
ALONE = ("class", "function", "exception")
"""What a name without a dot may mean."""
VARIABLES = {"report": "Report", "comparison": "Comparison"}
"""Variables of the guides' examples, and what they hold."""


def named(text):
    """Return the dotted name that a literal writes, or None: a call's arguments do not count."""
    match = re.fullmatch(r"([A-Za-z_][\w.]*\w)(\(.*\))?", text, re.DOTALL)
    if match is None:
        return None
    name = match[1]
    first, dot, rest = name.partition(".")
    if dot and first in VARIABLES:
        return f"{VARIABLES[first]}.{rest}" if rest not in ("html", "json") else None
    telling = "." in name or match[2] or re.match(r"[A-Z][a-z]+[A-Z]", name) or "_" in name.strip("_")
    return name if telling else None


def suffixes(objects):
    """Return every ending of a documented name, with the names that end so."""
    names = {}
    for full, entry in objects.items():
        parts = full.split(".") if entry.objtype in OBJECTS else []
        for start in range(len(parts)):
            names.setdefault(".".join(parts[start:]), []).append((full, entry))
    return names


def meaning(env, name):
    """Return the one documented thing that a name means, with its entry, or None."""
    if not hasattr(env, "name_suffixes"):
        env.name_suffixes = suffixes(env.domains["py"].objects)
    meant = env.name_suffixes.get(name, [])
    if "." not in name:
        meant = [(full, entry) for full, entry in meant if entry.objtype in ALONE]
    elif not meant and name.partition(".")[0] in VARIABLES.values():  # a field without its own entry
        return meaning(env, name.partition(".")[0])
    first = [(full, entry) for full, entry in meant if full == f"initscope.{name}"]  # the top-level name
    canonical = first or [(full, entry) for full, entry in meant if not entry.aliased] or meant
    return canonical[0] if len(canonical) == 1 else None


def link(app, doctree, docname):
    """Put a reference around each literal that names one thing."""
    if docname.startswith("generated/") or app.builder.format != "html":
        return
    for literal in list(doctree.findall(nodes.literal)):
        name = named(literal.astext())
        match = None if name is None or isinstance(literal.parent, nodes.reference) else meaning(app.env, name)
        if match is not None:
            full, entry = match
            inside = literal.deepcopy()
            literal.replace_self(make_refnode(app.builder, docname, entry.docname, entry.node_id, inside, full))


def look_up(app, env, node, inside):
    """Resolve a name in single backticks by its end, and what runs a reproduction by the reproduction."""
    if node.get("refdomain") != "py":
        return None
    name, here = node["reftarget"].removesuffix("()"), node.get("refdoc", env.docname)
    label = env.domains["std"].anonlabels.get(f"reproduction-{reproductions().get(name)}")
    if label is not None:
        return make_refnode(app.builder, here, *label, inside, name)
    match = meaning(env, name)
    if match is None:
        return None
    full, entry = match
    return make_refnode(app.builder, here, entry.docname, entry.node_id, inside, full)


def reproductions():
    """Return the first reproduction of each function that runs some, by the function's name."""
    ids = {}
    for id, declared in all_reproductions().items():
        ids.setdefault(f"{declared.produce.__module__}.{declared.produce.__name__}", id)
    return ids


def forget(app, env):
    """Drop the endings of an earlier build."""
    if hasattr(env, "name_suffixes"):
        del env.name_suffixes


def setup(app):
    app.connect("env-updated", forget)
    app.connect("doctree-resolved", link)
    app.connect("missing-reference", look_up)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
