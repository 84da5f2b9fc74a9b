"""``initscope mcp``: the tools for coding assistants, on standard input and output."""

from __future__ import annotations

from initscope.cli._output import say

__all__ = ["mcp"]


def mcp() -> None:
    """Serve inspect, compare, data, plan and theorem to a coding assistant by the Model Context Protocol.

    The tools only read, but the code of a MODEL that is named is run. Register the command in your assistant, for
    example: claude mcp add initscope -- initscope mcp.
    """
    from initscope.integrations import mcp_server

    server = mcp_server()
    say("initscope mcp: waiting for an assistant on standard input; Ctrl-C ends it")
    server.run("stdio")
