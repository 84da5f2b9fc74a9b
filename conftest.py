"""What holds for every test and every doctest: its own seed, a known environment, one thread, no deadline.

CONTRIBUTING.md, "Green every time", says how tests are seeded; ``benchmarks/green.py`` loops over seeds and orders.
"""

from __future__ import annotations

import contextlib
import doctest
import gc
import importlib.util
import locale
import os
import random
import sys
import zlib
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import torch

from initscope.errors import MissingDependencyError

hypothesis.settings.register_profile("initscope", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("initscope")

# Whoever starts the tests may have set these for a terminal of their own.
CLEARED = (
    *("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"),
    *("PYTHONIOENCODING", "LC_ALL", "LANGUAGE"),
)
SLOW = 0.5
"""Seconds of processor time, of a test with what it sets up and the processes that it starts."""
GIVEN = {"TERM": "xterm", "LANG": "C.UTF-8", "PYTHONUTF8": "1"}


def pytest_addoption(parser):
    """Options that ask whether a test passes by luck."""
    group = parser.getgroup("initscope")
    group.addoption("--seed", type=int, default=0, metavar="K", help="shift the seed that each test has from its name")
    group.addoption("--shuffle", type=int, metavar="K", help="run the files, and the tests in each, in the K-th order")
    group.addoption("--threads", type=int, default=1, metavar="N", help="threads of torch; one is fastest here")
    group.addoption("--without", default="", metavar="A,B", help="as if these packages were not installed")
    group.addoption("--fast", action="store_true", help="leave out the tests that are marked slow (tests/slow.txt)")
    group.addoption(
        "--list-slow", metavar="FILE", help=f"append the names of tests that take more than {SLOW} s of CPU"
    )
    group.addoption("--list-drawing", metavar="FILE", help="append the names of tests that draw from what is seeded so")


class Hiding:
    """A finder of modules that overlooks some packages."""

    def __init__(self, finder, packages):
        self.finder, self.packages = finder, packages

    def find_spec(self, name, path=None, target=None):
        """Find what the finder finds, or nothing."""
        return None if name.partition(".")[0] in self.packages else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)


def pytest_configure(config):
    """Hide packages before the first test module is read."""
    if packages := config.getoption("--without"):
        sys.meta_path[:] = [Hiding(finder, packages.split(",")) for finder in sys.meta_path]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage among modules and tests, which are all kept: it takes a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path):
    """Compiled loops can be looked through for doctests only where there is a compiler."""
    hidden = collection_path.name == "_loops.py" and importlib.util.find_spec("numba") is None
    return hidden or None  # None leaves the question to others


def pytest_collection_modifyitems(config, items):
    """Mark slow tests; shuffle files first, then the tests in each, so that what a file sets up is set up once."""
    listed = Path(__file__).with_name("tests") / "slow.txt"
    slow = set(listed.read_text(encoding="utf-8").split("\n"))
    for item in items:
        if name_of(item) in slow:
            item.add_marker("slow")
    if config.getoption("--fast"):
        left_out = [item for item in items if item.get_closest_marker("slow") is not None]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("slow") is None]
    if (order := config.getoption("--shuffle")) is not None:
        items.sort(key=lambda item: (seed_of(item.nodeid.partition("::")[0], order), seed_of(item.nodeid, order)))


def name_of(item):
    """A test's name without its parameters."""
    return item.nodeid.partition("[")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Append the names of slow tests to the file of ``--list-slow``: processor time does not depend on the load."""
    before = sum(os.times()[:4])
    result = yield
    target = item.config.getoption("--list-slow")
    if target and sum(os.times()[:4]) - before > SLOW:
        with Path(target).open("a", encoding="utf-8") as names:
            names.write(f"{name_of(item)}\n")
    return result


def seed_of(name, shift):
    """A seed from a name: the same on every machine and in every process, unlike ``hash``."""
    return zlib.crc32(f"{shift} {name}".encode())


def generators_of(module):
    """Return the generators that a test module keeps at its top."""
    kept = vars(module).values() if module else ()
    return [value for value in kept if isinstance(value, np.random.Generator | torch.Generator)]


def seed_generators(seed, kept=()):
    """Set the three global generators and those of the module."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (the state that older libraries draw from)
    torch.manual_seed(seed)
    for generator in kept:
        if isinstance(generator, torch.Generator):
            generator.manual_seed(seed)
        else:
            generator.bit_generator.state = type(generator.bit_generator)(seed).state


def random_states(kept=()):
    """Return the states of these generators, comparable."""
    _, keys, *position = np.random.get_state()  # noqa: NPY002
    pieces = [random.getstate(), keys.tobytes(), position, torch.get_rng_state().numpy().tobytes()]
    for generator in kept:
        torches = isinstance(generator, torch.Generator)
        pieces.append(generator.get_state().tolist() if torches else repr(generator.bit_generator.state))
    return pieces


@contextlib.contextmanager
def noted_if_drawing(name, config, kept=()):
    """Append ``name`` to the file of ``--list-drawing`` if one of the generators moves."""
    if not (target := config.getoption("--list-drawing")):
        yield
        return
    before = random_states(kept)
    yield
    if random_states(kept) != before:
        with Path(target).open("a", encoding="utf-8") as names:
            names.write(f"{name}\n")


@pytest.fixture(autouse=True)
def own_seed(request):
    """Seed what a test may draw from, also the generators that its module keeps, by its name without the file."""
    kept = generators_of(getattr(request.node, "module", None))
    name = request.node.nodeid.partition("::")[2]
    seed_generators(seed_of(name, request.config.getoption("--seed")), kept)
    with noted_if_drawing(request.node.nodeid, request.config, kept):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Seed what several tests share by its own name: it must not depend on which of them comes first."""
    if fixturedef.scope == "function":
        return (yield)
    kept = generators_of(getattr(request.node, "module", None))
    seed_generators(seed_of(fixturedef.argname, request.config.getoption("--seed")), kept)
    with noted_if_drawing(fixturedef.baseid, request.config, kept):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip a doctest that says which optional package it misses."""
    try:
        return (yield)
    except doctest.UnexpectedException as error:
        if isinstance(error.exc_info[1], MissingDependencyError):
            pytest.skip(str(error.exc_info[1]))
        raise


@pytest.fixture(autouse=True, scope="session")
def known_environment():
    """Colour, width, language and encoding as the tests expect them, for the processes that they start too."""
    with pytest.MonkeyPatch.context() as patch:
        for name in CLEARED:
            patch.delenv(name, raising=False)
        for name, value in GIVEN.items():
            patch.setenv(name, value)
        before = locale.setlocale(locale.LC_CTYPE)
        with contextlib.suppress(locale.Error):  # a system without this locale, such as macOS, has UTF-8 anyway
            locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
        yield
        locale.setlocale(locale.LC_CTYPE, before)


@pytest.fixture(autouse=True, scope="session")
def one_thread(request):
    """Small tensors and two busy cores: one torch thread is faster and repeatable."""
    torch.set_num_threads(request.config.getoption("--threads"))
