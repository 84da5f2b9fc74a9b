"""``initscope completion``: the script that lets a shell complete commands and options."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

__all__ = ["completion"]


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell the script is for.")], /
) -> None:
    """Print the script that lets your shell complete commands and options.

    To install it: eval "$(initscope completion bash)" in ~/.bashrc; initscope completion zsh > a file _initscope on
    your fpath; initscope completion fish > ~/.config/fish/completions/initscope.fish.
    """
    from initscope.cli import app

    print(app.generate_completion(shell=shell), end="")
