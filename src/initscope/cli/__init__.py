"""The command line: parses, calls, prints. Commands load their module only when they are called.

Data goes to stdout, messages and progress to stderr; exit 0 done, 1 failed, 2 bad use
(one line, no traceback unless ``--debug``).
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from cyclopts import App, CycloptsError

from initscope import __version__
from initscope.errors import InputError, MissingDependencyError

__all__ = ["app", "main"]

app = App(
    name="initscope",
    help="What a neural network does to the geometry of your data, before it has learned anything and after.",
    version=__version__,
    help_format="plaintext",
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
)

app.command("initscope.cli.hash:app", name="hash")
app.command("initscope.cli.injectivity:app", name="injectivity")
app.command("initscope.cli.mean_width:app", name="mean-width")
app.command("initscope.cli.search:app", name="search")


app.command("initscope.cli.plan:app", name="plan")


app.command("initscope.cli.demo:demo", name="demo")
app.command("initscope.cli.geometry:predict", name="predict")
app.command("initscope.cli.geometry:measure", name="measure")
app.command("initscope.cli.inspection:inspect", name="inspect")


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the ``initscope`` command; ``--debug`` anywhere lets errors through with their traceback."""
    tokens = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in tokens
    tokens = [token for token in tokens if token != "--debug"]
    try:
        app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except KeyboardInterrupt:
        _leave("interrupted", 1)
    except BrokenPipeError:
        # The reader has gone (`| head`): nothing more to say, and the interpreter must not try to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if debug:
            raise
        if isinstance(error, CycloptsError):
            _leave(f"{str(error).rstrip('.')}. See: {_help_command(tokens)}", 2)
        if isinstance(error, (InputError, MissingDependencyError)):
            _leave(str(error), 2)
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            _leave(f"this does not fit into memory ({error}); ask for smaller sizes, fewer images or fewer samples", 2)
        _leave(f"{type(error).__name__}: {error} (unexpected; --debug shows where)", 1)


def _leave(message: str, code: int) -> NoReturn:
    print(f"initscope: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


def _help_command(tokens: list[str]) -> str:
    """The command line that helps with ``tokens``: that of the deepest command they name."""
    return " ".join(["initscope", *app.parse_commands(tokens)[0], "--help"])
