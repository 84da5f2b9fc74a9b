"""Load a script of the repository that is not part of a package."""

import importlib.util


def load_script(path):
    """Return the script at this path as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script
