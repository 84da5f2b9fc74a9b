"""Names of Python in the guides are links: ``plan.width``, ``ZeroSum`` and ``report.blocks()`` lead to what they name.

A literal is linked if it can mean one documented thing only. Parameters, keys and attributes stay plain, since many
things have them; so do the pages of the reference, which link by themselves.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.util.nodes import make_refnode

OBJECTS = ("class", "function", "method", "property", "module", "exception", "data")
VARIABLES = {"report": "Report", "comparison": "Comparison"}
"""Variables of the guides' examples, and what they hold."""


def named(text):
    """Return the dotted name that a literal writes, or None: a call's arguments do not count."""
    match = re.fullmatch(r"(~?[A-Za-z_][\w.]*\w)(\(.*\))?", text, re.DOTALL)
    if match is None:
        return None
    name = match[1]
    first, dot, rest = name.partition(".")
    name = f"{VARIABLES[first]}.{rest}" if dot and first in VARIABLES else name
    telling = "." in name or match[2] or re.match(r"[A-Z][a-z]+[A-Z]", name) or "_" in name.strip("_")
    return name if telling else None


def suffixes(objects):
    """Return every ending of a documented name, with the names that end so."""
    found = {}
    for full, entry in objects.items():
        if entry.objtype not in OBJECTS:
            continue
        parts = full.split(".")
        for start in range(len(parts)):
            found.setdefault(".".join(parts[start:]), []).append((full, entry))
    return found


def link(app, doctree, docname):
    """Put a reference around each literal that names one thing."""
    if docname.startswith("generated/") or app.builder.format != "html":
        return
    if not hasattr(app.env, "name_suffixes"):
        app.env.name_suffixes = suffixes(app.env.domains["py"].objects)
    for literal in list(doctree.findall(nodes.literal)):
        name = named(literal.astext())
        if name is None or isinstance(literal.parent, nodes.reference):
            continue
        meant = app.env.name_suffixes.get(name, [])
        if name.count(".") == 0:
            meant = [(full, entry) for full, entry in meant if entry.objtype in ("class", "function", "exception")]
        canonical = [(full, entry) for full, entry in meant if not entry.aliased] or meant
        if len(canonical) != 1:
            continue
        full, entry = canonical[0]
        reference = make_refnode(app.builder, docname, entry.docname, entry.node_id, literal.deepcopy(), full)
        literal.replace_self(reference)


def forget(app, env):
    """Drop the endings of an earlier build."""
    if hasattr(env, "name_suffixes"):
        del env.name_suffixes


def setup(app):
    app.connect("doctree-resolved", link)
    app.connect("env-updated", forget)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
