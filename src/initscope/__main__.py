"""``python -m initscope``: the command line."""

from initscope.cli import main

if __name__ == "__main__":
    main()
