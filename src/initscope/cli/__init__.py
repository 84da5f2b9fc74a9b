"""The command line: parses, calls, prints. Commands load their module only when they are called.

Data goes to stdout, messages and progress to stderr. Exit codes: 0 done, 1 failed, 2 bad use (one line, no traceback
unless ``--debug``), 74 stdout is closed or full, 130 interrupted (results so far are printed).
"""

from __future__ import annotations

import difflib
import gc
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from cyclopts import App, CycloptsError, Parameter
from cyclopts.exceptions import MissingArgumentError, UnknownCommandError, UnusedCliTokensError

from initscope import __version__
from initscope.cli._help import WORK, command_group, examples
from initscope.cli._output import ask_of, command_line
from initscope.cli._progress import metered
from initscope.cli._streams import CANNOT_WRITE, discard_output, output_problem, prepare_streams, write_problem
from initscope.errors import InputError, MissingDependencyError
from initscope.results import printable

__all__ = ["app", "main"]

app = App(
    name="initscope",
    help="Find out why a deep network does not train, get a tested fix, and see what it does to the geometry of data.",
    version=__version__,
    help_format="plaintext",
    version_flags=["--version", "-V"],
    suppress_keyboard_interrupt=False,
    help_epilogue=examples(),
    group_parameters=WORK,
    default_parameter=Parameter(negative_iterable=()),
)

COMMANDS = {
    "demo": (
        "demo:demo",
        "Show the effect of a deep CNN on photographs at initialization; needs no data and no model.",
    ),
    "inspect": (
        "inspection:inspect",
        "Inspect a model on data: find what keeps it from learning, and suggest a fix that was tried.",
    ),
    "compare": (
        "compare:compare",
        "Compare models, checkpoints, initializations or saved reports: findings side by side, and what differs.",
    ),
    "data": (
        "data:data",
        "Show what enters a network: range, scale, missing values, duplicates, classes, intrinsic dimension.",
    ),
    "open": (
        "saved:open_result",
        "Show a saved result again, as a table or a page, without running anything.",
    ),
    "predict": (
        "predict_measure:predict",
        "Predict angles and norms of pairs after every layer from theory, "
        "without running the model.\n\nMODEL may also be "
        "a Hugging Face config.json, or hf:LlamaConfig: models of any size then need no weights.",
    ),
    "measure": (
        "predict_measure:measure",
        "Measure angles and norms of pairs after every layer by running the model, and compare with the prediction.",
    ),
    "coordinates": (
        "coordinates:coordinates",
        "Coordinate check: exponents of activation scales against the width, predicted and after optimizer steps.\n\n"
        "Exits with code 1 if scales depend on the width.",
    ),
    "plan": (
        "plan:app",
        "Plan widths, depths, numbers of filters, dimensions and bits, by bounds and exact answers.",
    ),
    "injectivity": (
        "injectivity:app",
        "Decide whether a ReLU layer is injective, with proof; thresholds and probabilities for random layers.",
    ),
    "invert": (
        "invert:invert",
        "Show what the layers of a network preserve of a photograph, by inverting their outputs.",
    ),
    "discriminate": (
        "invert:discriminate",
        "Show with how few measurements classification and reconstruction still work.",
    ),
    "mean-width": (
        "mean_width:app",
        "Estimate the Gaussian mean width and intrinsic dimension of data, also after each layer of a model.",
    ),
    "flatness": (
        "flatness:flatness",
        "Bound the change of cosines by one layer from the flatness of image patches, or list monochrome images.\n\n"
        "The bounds hold for ReLU, Gaussian filters of He scale, and circular convolution with stride 1.",
    ),
    "separation": (
        "separation:separation",
        "Compare distances within and between classes before and after training, at random points and at boundaries."
        "\n\nThe first network is the initialization (from --seed), followed by --weights and --checkpoints.",
    ),
    "kernel": (
        "kernel:kernel",
        "Compute the expected kernel matrix (NNGP or NTK) of a model of infinite "
        "width on a data set.\n\nIf the data have "
        "labels, the leave-one-out accuracy of a Gaussian process with this kernel is printed as well.",
    ),
    "sweep": (
        "sweep:sweep",
        "Run a grid of architectures, initializers, data and seeds; an interrupted sweep can be continued.\n\n"
        "FILE is TOML: [grid] holds lists for architecture, width, depth, initializer, activation, data, seed and "
        "quantity (predict, measure, mean-width, inspect, train), [run] what all runs share (pairs, draws, …).",
    ),
    "hash": ("hash:app", "Fit a hash to data and encode data as binary codes that preserve similarity."),
    "search": (
        "search:app",
        "Build and change an index of codes, search it by Hamming distance, and evaluate retrieval.",
    ),
    "reproduce": (
        "reproduce:reproduce",
        "Reproduce figures, tables and statements of the sources, and compare with the published numbers on one page.",
    ),
    "theorem": (
        "theorem:theorem",
        "Show a statement of the sources: its text and formula, the function "
        "that computes it, an example and its test.",
    ),
    "mcp": (
        "mcp:mcp",
        "Serve inspect, compare, data, plan and theorem to a coding assistant by the Model Context Protocol.\n\n"
        "The tools only read, but the code of a MODEL that is named is run. Register the command in your assistant, "
        "for example: claude mcp add initscope -- initscope mcp.",
    ),
    "completion": (
        "completion:completion",
        "Print the script that lets your shell complete commands and options.\n\n"
        'To install it: eval "$(initscope completion bash)" in ~/.bashrc; '
        "initscope completion zsh > a file _initscope on "
        "your fpath; initscope completion fish > ~/.config/fish/completions/initscope.fish.",
    ),
}
"""Module and help of each command. The help is repeated here, so that ``--help`` loads no libraries."""

for _name, (_where, _help) in COMMANDS.items():
    # A group of commands shows the examples of its commands.
    _epilogue = {} if _where.endswith(":app") else {"help_epilogue": examples(_name)}
    app.command(f"initscope.cli.{_where}", name=_name, help=_help, group=command_group(_name), **_epilogue)


for _flag in (*app.help_flags, *app.version_flags):
    app[_flag].group = command_group("completion")


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the ``initscope`` command; ``--debug`` anywhere lets errors through with their traceback."""
    tokens = sys.argv[1:] if arguments is None else list(arguments)
    debug = "--debug" in tokens
    tokens = [token for token in tokens if token != "--debug"]
    ask_of()
    command_line(tokens)
    prepare_streams()
    if problem := output_problem():
        _leave_output(f"{problem}; nothing was computed")
    try:
        with metered() as meter, _rare_collection():
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
            _leave(f"out of memory{_asked(error)}; use smaller sizes, fewer images or fewer samples", 2)
        _leave(f"{type(error).__name__}: {error} (unexpected; --debug shows where)", 1)
    if meter.interrupted:
        _leave("interrupted: this is what was found so far", _INTERRUPTED)


@contextmanager
def _rare_collection() -> Iterator[None]:
    """Search for reference cycles less often: a tenth of a short command, most of it while torch is imported."""
    before = gc.get_threshold()
    gc.set_threshold(20_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


_INTERRUPTED = 130  # what shells give a command that Ctrl-C has ended


def _leave(message: str, code: int) -> NoReturn:
    print(f"initscope: {printable(' '.join(message.split()))}", file=sys.stderr)
    sys.exit(code)


def _leave_output(problem: str) -> NoReturn:
    discard_output()
    _leave(f"{problem}; redirect it to a writable file or pipe, or free disk space", CANNOT_WRITE)


def _asked(error: BaseException) -> str:
    """Return how much memory was requested, if the message of NumPy or torch says so."""
    result = re.search(r"allocate ([\d.]+) ([KMGTPE]i?B|bytes)", str(error))
    if result is None:
        return ""
    number, unit = float(result[1]), result[2]
    return f" ({number / 2**30:.3g} GiB were requested)" if unit == "bytes" else f" ({number:g} {unit} were requested)"


def _sentence(error: CycloptsError) -> str:
    """Return the error in a command line and the most similar command."""
    if isinstance(error, UnknownCommandError) and error.app is not None:
        word = (error.unused_tokens or [""])[0]
        known = [name for name in error.app if not name.startswith("-")]
        near = difflib.get_close_matches(word, known, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        return f"no command is named {word!r}.{meant} Available commands: {', '.join(known)}."
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return f"unexpected arguments {' '.join(error.unused_tokens)!r}; remove them, or quote names with spaces."
    text = str(error).strip().rstrip(".")
    if isinstance(error, MissingArgumentError):
        lacking = r"\1 is missing" if error.keyword is None else r"\1 needs a value"
        text = re.sub(r'^Command ".*" parameter (\S+) requires an argument', lacking, text)
    return text if text.endswith("?") else f"{text}."


def _help_command(tokens: list[str]) -> str:
    """Return the command that prints the help for ``tokens``."""
    return " ".join(["initscope", *app.parse_commands(tokens)[0], "--help"])
