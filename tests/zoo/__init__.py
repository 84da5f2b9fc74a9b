"""Networks for tests and benchmarks.

``by_width``: well-known networks whose width is an argument, for the rules of prediction.
The other files: published architectures at their published start, one family a file, each a `Member` with data of its
kind and its loss. ``HEALTHY`` holds them by name; nothing is wrong with any of them. ``SMALL`` names those for CI.
"""

from zoo.by_width import MODELS, Branching, DictInput, Function, mobilenet, resnet, vgg
from zoo.members import Member
from zoo.registry import HEALTHY, SMALL

__all__ = [
    "HEALTHY",
    "MODELS",
    "SMALL",
    "Branching",
    "DictInput",
    "Function",
    "Member",
    "mobilenet",
    "resnet",
    "vgg",
]
