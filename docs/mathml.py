"""Formulas as MathML, which browsers draw themselves: pages need no network and no script."""

from __future__ import annotations

import html

from docutils import nodes
from latex2mathml.converter import convert


def visit_inline(translator, node):
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def visit_display(translator, node):
    """Write a display formula; its label becomes the target of links."""
    label = f' id="{html.escape(node["ids"][0])}"' if node.get("ids") else ""
    translator.body.append(f'<div class="formula"{label}>{convert(node.astext().strip(), display="block")}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
