"""The command line: parses, calls, prints. Commands load their module only when they are called.

Data goes to stdout, messages and progress to stderr; exit 0 done, 1 failed, 2 bad use (one line, no traceback unless
``--debug``), 74 stdout is closed or full, 130 interrupted, after what was found so far.
"""

from __future__ import annotations

import difflib
import re
import sys
from typing import NoReturn

from cyclopts import App, CycloptsError, Parameter
from cyclopts.exceptions import MissingArgumentError, UnknownCommandError, UnusedCliTokensError

from initscope import __version__
from initscope.cli._help import WORK, command_group, examples
from initscope.cli._output import ask_of
from initscope.cli._progress import metered
from initscope.cli._streams import CANNOT_WRITE, discard_output, output_problem, prepare_streams, write_problem
from initscope.errors import InputError, MissingDependencyError
from initscope.results import printable

__all__ = ["app", "main"]

app = App(
    name="initscope",
    help="Why a deep network does not train, and what to type: what it does to the geometry of your data.",
    version=__version__,
    help_format="plaintext",
    version_flags=["--version", "-V"],
    suppress_keyboard_interrupt=False,
    help_epilogue=examples(),
    group_parameters=WORK,
    default_parameter=Parameter(negative_iterable=()),
)

COMMANDS = {
    "demo": ("demo:demo", "Show what a deep CNN does to real photographs: no data, no model needed."),
    "inspect": (
        "inspection:inspect",
        "Inspect a model on data: find what keeps it from learning, and suggest a fix that was tried.",
    ),
    "predict": (
        "predict_measure:predict",
        "Predict angles and norms of pairs after every layer, from theory alone.\n\nMODEL may also be a Hugging Face "
        "config.json, or hf:LlamaConfig: then no weights are needed, whatever the size.",
    ),
    "measure": (
        "predict_measure:measure",
        "Measure angles and norms of pairs after every layer: run the model, with the prediction beside it.",
    ),
    "coordinates": (
        "coordinates:coordinates",
        "Check that sizes do not depend on the width: exponents by theory, and after steps of the optimizer.\n\n"
        "Exit code 1 where they do.",
    ),
    "plan": (
        "plan:app",
        "How wide, how deep, how many filters, dimensions and bits: bounds and exact answers.",
    ),
    "injectivity": (
        "injectivity:app",
        "When is a ReLU layer injective? Thresholds, probabilities, and a verdict with proof.",
    ),
    "invert": ("invert:invert", "Show what layers of a network still know of a photograph: invert their outputs."),
    "discriminate": (
        "invert:discriminate",
        "Show how far measurements can be cut before classification, and before reconstruction, breaks.",
    ),
    "mean-width": (
        "mean_width:app",
        "Gaussian mean width and intrinsic dimension of data, and after each layer of a model.",
    ),
    "flatness": (
        "flatness:flatness",
        "Tell how flat the patches of your images are, how far one layer can move their cosines, or which are one "
        "colour.\n\nThe bounds hold for ReLU, Gaussian filters of He scale, cyclic convolution with stride 1.",
    ),
    "separation": (
        "separation:separation",
        "Distances within and between classes, before and after training: at random points and at class boundaries."
        "\n\nThe network at initialisation (drawn by --seed) stands first, then --weights and --checkpoints.",
    ),
    "kernel": (
        "kernel:kernel",
        "Expected kernel matrix (NNGP or NTK) of a model of infinite width on a data set.\n\nWhere the data has "
        "labels, the accuracy of a Gaussian process with this kernel is printed too, each image told from all others.",
    ),
    "sweep": (
        "sweep:sweep",
        "Run a grid of architectures, starts, data and seeds; stopped, it goes on where it was.\n\n"
        "FILE is TOML: [grid] holds lists for architecture, width, depth, initializer, activation, data, seed and "
        "quantity (predict, measure, mean-width, inspect, train), [run] what all runs share (pairs, draws, …).",
    ),
    "hash": ("hash:app", "Binary codes that keep similarity: fit a hash to data, encode data with it."),
    "search": (
        "search:app",
        "Nearest codes by Hamming distance: build and change an index, query it, evaluate retrieval.",
    ),
    "reproduce": (
        "reproduce:reproduce",
        "Run figures, tables and statements of the sources, with the published value beside ours, on one page.",
    ),
    "theorem": (
        "theorem:theorem",
        "Show a statement of the sources: in words, as a formula, the function, an example to paste, its test.",
    ),
    "completion": (
        "completion:completion",
        "Print the script that lets your shell complete commands and options.\n\n"
        'For good: eval "$(initscope completion bash)" in ~/.bashrc; initscope completion zsh > a file _initscope on '
        "your fpath; initscope completion fish > ~/.config/fish/completions/initscope.fish.",
    ),
}
"""Where each command is, and its help again: to read it there would load the libraries of all of them."""

for _name, (_where, _help) in COMMANDS.items():
    # A room of commands says its own examples.
    _own = {} if _where.endswith(":app") else {"help_epilogue": examples(_name)}
    app.command(f"initscope.cli.{_where}", name=_name, help=_help, group=command_group(_name), **_own)


for _flag in (*app.help_flags, *app.version_flags):
    app[_flag].group = command_group("completion")


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the ``initscope`` command; ``--debug`` anywhere lets errors through with their traceback."""
    tokens = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in tokens
    tokens = [token for token in tokens if token != "--debug"]
    ask_of()
    prepare_streams()
    if problem := output_problem():
        _leave_output(f"{problem}; nothing was computed")
    try:
        with metered() as meter:
            app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        if sys.stdout is not None:
            sys.stdout.flush()  # a reader that has gone is noticed here, not by the interpreter at its end
    except KeyboardInterrupt as interrupt:
        _leave(str(interrupt) or "interrupted before anything was found", _INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone (`| head`): nothing more to say, and the interpreter must not try to flush.
        discard_output()
        sys.exit(1)
    except Exception as error:
        if isinstance(error, OSError) and (problem := write_problem()):
            _leave_output(problem)
        if debug:
            raise
        if isinstance(error, CycloptsError):
            _leave(f"{_sentence(error)} See: {_help_command(tokens)}", 2)
        if isinstance(error, (InputError, MissingDependencyError)):
            _leave(str(error), 2)
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            _leave(f"this does not fit into memory{_asked(error)}; ask for smaller sizes, fewer images or samples", 2)
        _leave(f"{type(error).__name__}: {error} (unexpected; --debug shows where)", 1)
    if meter.interrupted:
        _leave("interrupted: this is what was found so far", _INTERRUPTED)


_INTERRUPTED = 130  # what shells give a command that Ctrl-C has ended


def _leave(message: str, code: int) -> NoReturn:
    print(f"initscope: {printable(' '.join(message.split()))}", file=sys.stderr)
    sys.exit(code)


def _leave_output(problem: str) -> NoReturn:
    discard_output()
    _leave(f"{problem}; send it to a file or a pipe that takes it, or make room on the disk", CANNOT_WRITE)


def _asked(error: BaseException) -> str:
    """How much memory was asked for, as far as NumPy's or torch's message tells."""
    found = re.search(r"allocate ([\d.]+) ([KMGTPE]i?B|bytes)", str(error))
    if found is None:
        return ""
    number, unit = float(found[1]), found[2]
    return f" ({number / 2**30:.3g} GiB were asked for)" if unit == "bytes" else f" ({number:g} {unit} were asked for)"


def _sentence(error: CycloptsError) -> str:
    """What is wrong with the words of a command line, and what was meant."""
    if isinstance(error, UnknownCommandError) and error.app is not None:
        word = (error.unused_tokens or [""])[0]
        known = [name for name in error.app if not name.startswith("-")]
        near = difflib.get_close_matches(word, known, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        return f"no command is called {word!r}.{meant} There are {', '.join(known)}."
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return f"nothing takes the words {' '.join(error.unused_tokens)!r} at the end; leave them out, or quote names."
    text = str(error).strip().rstrip(".")
    if isinstance(error, MissingArgumentError):
        lacking = r"\1 is missing" if error.keyword is None else r"\1 needs a value"
        text = re.sub(r'^Command ".*" parameter (\S+) requires an argument', lacking, text)
    return text if text.endswith("?") else f"{text}."


def _help_command(tokens: list[str]) -> str:
    """The command line that helps with ``tokens``: that of the deepest command they name."""
    return " ".join(["initscope", *app.parse_commands(tokens)[0], "--help"])
