"""``python -m initscope``: the command line."""

from initscope.cli import main

main()
