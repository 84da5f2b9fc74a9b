"""`mcp_server`: tools for coding assistants by the Model Context Protocol: inspect, compare, data, plan, theorem.

All tools only read. The one exception is the code of the model that the user names: it is run, as by the command line.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import initscope
from initscope._utils.libraries import library
from initscope.data.sources import load, seeded
from initscope.errors import InputError, MissingDependencyError, did_you_mean
from initscope.models import load_model
from initscope.results import plain
from initscope.theory.statements import find_statements

__all__ = ["mcp_server"]

_INSTRUCTIONS = (
    "initscope finds out why a PyTorch model does not learn. MODEL is file.py:factory, package.module:factory, "
    "hf:NAME, timm:NAME or an architecture string such as dense64-relu*4-dense10; its code is run. DATA is a name "
    "(photos, digits, text), a folder of images, or a file (.csv, .parquet, .npy, .pt, .safetensors, .jsonl, .tar). "
    "Begin with data_overview and inspect_model; apply the suggested fix and inspect again."
)


def inspect_model(
    model: str, data: str = "photos", weights: str = "", target_column: str = "", pairs: int = 64, seed: int = 0
) -> str:
    """Inspect a PyTorch model on data: what keeps it from learning, in which layer, and a fix that was tried.

    The answer is Markdown: the conclusion, findings with their fixes, what was not checked, and a table of layers.
    """
    inputs = load(seeded(data, seed), target_column=target_column or None)
    built = load_model(model, weights=weights or None, input_shape=inputs.shape, seed=seed)
    pairs = max(1, min(pairs, len(inputs) // 2))
    return str(initscope.inspect(built, inputs, pairs=pairs, seed=seed).to_markdown())


def compare_models(models: dict[str, str], data: str = "photos", pairs: int = 64, seed: int = 0) -> str:
    """Compare several models (a label and a MODEL each) on the same data: findings and what differs, as JSON."""
    if not models:
        raise InputError("no models are named; give a label and a MODEL for each")
    inputs = load(seeded(data, seed))
    built = {label: load_model(model, input_shape=inputs.shape, seed=seed) for label, model in models.items()}
    pairs = max(1, min(pairs, len(inputs) // 2))
    both = initscope.compare(built, inputs, pairs=pairs, seed=seed, alternatives=False)
    return json.dumps(plain({"models": both.table(), "findings": both.findings(), "changes": both.changes}))


def data_overview(data: str, target_column: str = "", limit: int = 0) -> str:
    """Show what enters a network: range, scale, missing values, duplicates, classes, intrinsic dimension."""
    options = {"target_column": target_column or None, "limit": limit or None}
    return initscope.data.overview(data, **options).to_markdown()


def plan(planner: str, arguments: dict[str, int | float | str]) -> str:
    """Plan a width, depth, number of bits, or dimension: the papers' bounds and the exact answer, as JSON.

    Planners are width, depth, bits, subspace, projection and expansivity. In each, eps is the distortion and delta the
    probability of failure, for example planner="width", arguments={"eps": 0.1, "delta": 0.05, "depth": 10}.
    """
    known = ("width", "depth", "bits", "subspace", "projection", "expansivity")
    if planner not in known:
        raise InputError(f"no planner {planner!r}{did_you_mean(planner, known)}; planners: {', '.join(known)}")
    try:
        result = getattr(initscope.plan, planner)(**arguments)
    except TypeError as error:
        raise InputError(f"plan {planner}: {error}") from error
    return json.dumps(plain(result))


def theorem(query: str) -> str:
    """Find a theorem, lemma or statement of the papers by number or words, with the function that computes it."""
    matches = find_statements(query)
    return json.dumps({"statement": plain(matches[0]), "see_also": [match.title for match in matches[1:6]]})


def mcp_server() -> Any:
    """Return the server with all tools; ``initscope mcp`` runs it on standard input and output.

    Returns
    -------
    mcp.server.MCPServer
        Of the official SDK (the extra ``mcp``).
    """
    server = library("mcp.server", of="mcp").MCPServer("initscope", instructions=_INSTRUCTIONS)
    annotations = library("mcp.types", of="mcp").ToolAnnotations
    for tool in (inspect_model, compare_models, data_overview, plan, theorem):
        runs_code = tool in (inspect_model, compare_models)
        hints = annotations(read_only_hint=not runs_code, destructive_hint=False, open_world_hint=runs_code)
        server.add_tool(_quiet(tool), name=tool.__name__, description=tool.__doc__, annotations=hints)
    return server


def _quiet(tool: Callable[..., str]) -> Callable[..., str]:
    """Return a tool whose prints go to stderr, because standard output belongs to the protocol.

    The SDK shows only messages of its own errors.
    """
    failed = library("mcp.server.mcpserver.exceptions", of="mcp").ToolError

    @functools.wraps(tool)
    def run(*arguments: Any, **options: Any) -> str:
        try:
            with redirect_stdout(sys.stderr):
                return tool(*arguments, **options)
        except (InputError, MissingDependencyError) as error:
            raise failed(str(error)) from error

    return run
