"""How the documentation is built: ``./run docs``."""

import re
import sys
from pathlib import Path

from sphinx_gallery.sorting import FileNameSortKey

import initscope

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
# `name` in single backticks is Python's name where the documentation has one, and plain code elsewhere.
default_role = "py:obj"

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "signature"  # signatures say the types of arguments and fields; the text says what they mean
autodoc_typehints_format = "short"
maximum_signature_line_length = 100
autodoc_member_order = "bysource"
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_rtype = False
# The list of references is complete whether or not a page cites each of them.
# Plain words in the types of parameters may be names of several attributes: these are no references.
suppress_warnings = ["ref.citation", "ref.python", "config.cache", "toc.empty_glob"]

sphinx_gallery_conf = {
    "examples_dirs": ["../examples/tutorials", "../examples/gallery"],
    "gallery_dirs": ["tutorials", "gallery"],
    "within_subsection_order": FileNameSortKey,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,  # pages of them would load a script from elsewhere
    "capture_repr": (),  # what is worth reading is printed
}

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_title = f"initscope {version}"
html_show_sourcelink = False
html_sidebars = {"**": ["everything.html"]}
html_context = {"default_mode": "auto"}  # without it the theme complains on the console of every new reader
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "navbar_center": [],  # the pages stand in the sidebar, all of them
}

# Where |x| is no absolute value: code, roles, formulas set apart, doctests.
_SET_APART = re.compile(
    r"(``.*?``|`[^`]*`|^( *)\.\. math::.*(?:\n(?:\2 +.*|[ ]*$))*|^ *(?:>>>|\.\.\.) .*$)", re.MULTILINE
)


def keep_absolute_values(app, what, name, thing, options, lines):
    """Let docstrings write |x|, which reStructuredText would take for a substitution."""
    text, place, parts = "\n".join(lines), 0, []
    for match in _SET_APART.finditer(text):
        parts += [_escaped(text[place : match.start()]), match.group()]
        place = match.end()
    lines[:] = "".join([*parts, _escaped(text[place:])]).split("\n")


def leave_out_routing(app, what, name, thing, skip, options):
    """Leave out what scikit-learn adds to estimators whose methods have options of their own."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def let_pictures_scroll(app, page, template, context, doctree):
    """Put the gallery's pictures into boxes that scroll: on a phone a wide one is shown at two thirds of its size."""
    context["body"] = _PICTURE.sub(lambda match: _boxed(Path(app.srcdir), match), context.get("body", ""))


_PICTURE = re.compile(r'<img src="[^"]*/(?P<name>[^"/]+)"[^>]*class = "sphx-glr-[a-z-]*img"[^>]*/>')


def _boxed(source, match):
    from PIL import Image

    found = next(source.glob(f"*/images/{match['name']}"), None)
    if found is None:
        return match[0]
    with Image.open(found) as picture:
        least = picture.width * 2 // 3 if picture.width >= 700 else 0
    return f'<div class="picture" style="--least: {least}px">{match[0]}</div>'


def break_names_between_their_parts(app, page, template, context, doctree):
    """Let long names in code and titles break behind dots, slashes and underscores, and nowhere else."""
    parts = re.compile(r"(?<=[./_])(?=\w)")
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
    app.connect("html-page-context", let_pictures_scroll)
    app.connect("html-page-context", break_names_between_their_parts)
