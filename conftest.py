"""What holds for every test and every doctest: its own seed, a known environment, one thread, no deadline.

CONTRIBUTING.md, "Green every time", says how tests are seeded; ``benchmarks/green.py`` loops over seeds and orders.
"""

from __future__ import annotations

import contextlib
import locale
import random
import zlib
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import torch

hypothesis.settings.register_profile("initscope", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("initscope")

# Whoever starts the tests may have set these for a terminal of their own.
CLEARED = (
    *("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"),
    *("PYTHONIOENCODING", "LC_ALL", "LANGUAGE"),
)
GIVEN = {"TERM": "xterm", "LANG": "C.UTF-8", "PYTHONUTF8": "1"}


def pytest_addoption(parser):
    """Options that ask whether a test passes by luck."""
    group = parser.getgroup("initscope")
    group.addoption("--seed", type=int, default=0, metavar="K", help="shift the seed that each test has from its name")
    group.addoption("--shuffle", type=int, metavar="K", help="run the files, and the tests in each, in the K-th order")
    group.addoption("--threads", type=int, default=1, metavar="N", help="threads of torch; one is fastest here")
    group.addoption("--list-drawing", metavar="FILE", help="append the names of tests that draw from what is seeded so")


def pytest_collection_modifyitems(config, items):
    """Shuffle files first, then the tests in each, so that what a file sets up is set up once."""
    if (order := config.getoption("--shuffle")) is not None:
        items.sort(key=lambda item: (seed_of(item.nodeid.partition("::")[0], order), seed_of(item.nodeid, order)))


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
