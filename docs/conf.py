"""How the documentation is built: ``./run docs``."""

import re
import sys
from pathlib import Path

import matplotlib
from sphinx_gallery.sorting import FileNameSortKey

import initscope
from initscope._utils.axes import STYLE

sys.path.insert(0, str(Path(__file__).parent))

project = "initscope"
author = "The initscope developers"
copyright = "The initscope developers"
version = release = initscope.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "indexes",
    "linked_names",
    "mathml",
]
exclude_patterns = [
    "_build",
    "**/sg_execution_times.rst",
    "gallery/*.ipynb",
    "gallery/*.py",
    "tutorials/*.ipynb",
    "tutorials/*.py",
]
templates_path = ["_templates"]
# `name` in single backticks links to the API entry of that name, and is plain code if there is none.
default_role = "py:obj"

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "signature"  # types are in the signatures, meanings in the text
autodoc_typehints_format = "short"
maximum_signature_line_length = 100
autodoc_member_order = "bysource"
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_rtype = False
# The list of references is complete whether or not a page cites each of them.
# Plain words in the types of parameters can equal the names of several attributes. They are not references.
suppress_warnings = ["ref.citation", "ref.python", "config.cache", "toc.empty_glob"]


def set_figure_style(gallery_conf, script):
    """Give the figures of a script the style of the library's own figures."""
    matplotlib.rcParams.update(STYLE)


sphinx_gallery_conf = {
    "examples_dirs": ["../examples/tutorials", "../examples/gallery"],
    "gallery_dirs": ["tutorials", "gallery"],
    "within_subsection_order": FileNameSortKey,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,  # their pages would load a script from another server
    "capture_repr": (),  # the scripts print what matters
    "reset_modules": ("matplotlib", set_figure_style),
}

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_title = f"initscope {version}"
html_show_sourcelink = False
html_sidebars = {"**": ["everything.html"]}
html_context = {"default_mode": "auto"}  # without it the theme writes a warning to the browser's console
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "navbar_center": [],  # the sidebar lists all pages
}

# Parts of a docstring where |x| is not an absolute value: code, roles, display formulas, doctests.
_LITERAL = re.compile(
    r"(``.*?``|`[^`]*`|^( *)\.\. math::.*(?:\n(?:\2 +.*|[ ]*$))*|^ *(?:>>>|\.\.\.) .*$)", re.MULTILINE
)


def keep_absolute_values(app, what, name, thing, options, lines):
    """Let docstrings write |x|, which reStructuredText would read as a substitution."""
    text, position, parts = "\n".join(lines), 0, []
    for match in _LITERAL.finditer(text):
        parts += [_escaped(text[position : match.start()]), match.group()]
        position = match.end()
    lines[:] = "".join([*parts, _escaped(text[position:])]).split("\n")


def leave_out_routing(app, what, name, thing, skip, options):
    """Leave out the methods that scikit-learn adds to estimators for metadata routing."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def let_figures_scroll(app, page, template, context, doctree):
    """Put the gallery's figures into boxes that scroll, because a phone would show wide figures too small to read."""
    context["body"] = _FIGURE.sub(lambda match: _boxed(Path(app.srcdir), match), context.get("body", ""))


_FIGURE = re.compile(r'<img src="[^"]*/(?P<name>[^"/]+)"[^>]*class = "sphx-glr-[a-z-]*img"[^>]*/>')


def _boxed(source, match):
    from PIL import Image

    path = next(source.glob(f"*/images/{match['name']}"), None)
    if path is None:
        return match[0]
    with Image.open(path) as image:
        least = image.width * 2 // 3 if image.width >= 700 else 0
    return f'<div class="figure-box" style="--least: {least}px">{match[0]}</div>'


def break_names_between_their_parts(app, page, template, context, doctree):
    """Let long names in code and titles break after slashes and underscores and before dots, and nowhere else."""
    parts = re.compile(r"(?<=[\w)])(?=\.\w)|(?<=[/_])(?=\w)")
    context["body"] = _NAME.sub(lambda match: parts.sub("<wbr>", match[0]), context.get("body", ""))


_NAME = re.compile(r'(?:(?<=<span class="pre">)|(?<=<h1>))[^<\s]{16,}(?=<)')


def _escaped(text):
    return re.sub(r"\|(\S[^|]*?)(?<=\S)\|", r"\\|\1\\|", text)


def write_check_pages(app):
    import check_pages

    check_pages.write_pages(Path(__file__).parent / "checks")


def setup(app):
    app.connect("builder-inited", write_check_pages)
    app.connect("autodoc-process-docstring", keep_absolute_values)
    app.connect("autodoc-skip-member", leave_out_routing)
    app.connect("html-page-context", let_figures_scroll)
    app.connect("html-page-context", break_names_between_their_parts)
