"""The command line: parses, calls, prints. Commands load their module only when they are called.

Data goes to stdout, messages and progress to stderr; exit 0 done, 1 failed, 2 bad use
(one line, no traceback unless ``--debug``).
"""

from __future__ import annotations

import os
import sys

from cyclopts import App

from initscope import __version__
from initscope.errors import InputError, MissingDependencyError

__all__ = ["app", "main"]

app = App(
    name="initscope",
    help="What a neural network does to the geometry of your data, before it has learned anything and after.",
    version=__version__,
    help_format="plaintext",
    version_flags=["--version"],
)

app.command("initscope.cli.hash:app", name="hash")
app.command("initscope.cli.injectivity:app", name="injectivity")
app.command("initscope.cli.mean_width:app", name="mean-width")
app.command("initscope.cli.search:app", name="search")


app.command("initscope.cli.plan:app", name="plan")


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the ``initscope`` command."""
    tokens = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in tokens
    if debug:
        tokens.remove("--debug")
    try:
        app(tokens)
    except (InputError, MissingDependencyError) as error:
        if debug:
            raise
        print(f"initscope: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        print("initscope: interrupted", file=sys.stderr)
        sys.exit(1)
