"""Encoding, search and mean width, side by side with the bare matrix product and with faiss in the same run.

Threads are pinned to one; times are the least CPU time of several rounds in turns, so that a busy machine hurts all.
"""

from __future__ import annotations

import resource

import numpy as np
import pytest
from measuring import in_turns
from threadpoolctl import threadpool_limits

import initscope
from initscope.embed import HammingIndex, SignHash

faiss = pytest.importorskip("faiss")


@pytest.fixture(autouse=True)
def one_thread():
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    with threadpool_limits(1):
        yield
    faiss.omp_set_num_threads(before)


def test_encoding_against_the_bare_product_and_faiss(benchmark):
    """1,000,000 × 384 float32 to 256 bits: at least 80 % of the product's speed, not slower than faiss's LSH."""
    rows = np.random.default_rng(0).standard_normal((1_000_000, 384), dtype=np.float32)
    hasher = SignHash(bits=256).fit(rows[:10])
    lsh = faiss.IndexLSH(384, 256)

    def product():
        for start in range(0, len(rows), 4096):
            rows[start : start + 4096] @ hasher.weights_.T

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    codes = hasher.transform(rows)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 - codes.nbytes / 2**20
    bare, ours, theirs = in_turns(product, lambda: hasher.transform(rows), lambda: lsh.sa_encode(rows), repeats=2)
    benchmark.extra_info.update(product=bare, ours=ours, faiss=theirs, extra_megabytes=memory)
    benchmark.pedantic(lambda: None)
    print(f"product {bare:.2f} s, SignHash {ours:.2f} s ({bare / ours:.0%}), faiss LSH {theirs:.2f} s, {memory:.0f} MB")
    assert bare / ours > 0.8
    assert ours < 1.05 * theirs
    assert memory < 200


@pytest.mark.parametrize("bits", [48, 256])
def test_search_against_faiss(benchmark, bits):
    """60,000 codes, 1,000 queries, 100 neighbours: faster than the flat index; from vectors faster than IndexLSH.

    Of an index that has been asked before, so that its loops are loaded; until then it is faiss that searches.
    """
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    rows, queries = (rng.standard_normal((count, 384), dtype=np.float32) for count in (60_000, 1000))
    hasher = SignHash(bits=bits).fit(rows)
    codes, asked = hasher.transform(rows), hasher.transform(queries)
    index = HammingIndex(bits)
    index.add(codes)
    flat = faiss.IndexBinaryFlat(bits)
    flat.add(codes)
    lsh = faiss.IndexLSH(384, bits)
    lsh.add(rows)
    while not index.compiled:
        index.search(asked, 100)
    ours, theirs, whole, lsh_time = in_turns(
        lambda: index.search(asked, 100),
        lambda: flat.search(asked, 100),
        lambda: index.search(hasher.transform(queries), 100),
        lambda: lsh.search(queries, 100),
        repeats=9,
    )
    benchmark.extra_info.update(ours=ours, flat=theirs, whole=whole, lsh=lsh_time)
    benchmark.pedantic(lambda: None)
    print(f"{bits} bits: ours {ours:.3f} s, flat {theirs:.3f} s; from vectors {whole:.3f} s, IndexLSH {lsh_time:.3f} s")
    assert ours < theirs
    assert whole < lsh_time


def test_mean_width_of_a_million_points(benchmark):
    """1,000,000 × 128 points to 1 % in one pass: time beside the one matrix product it needs."""
    points = np.random.default_rng(0).standard_normal((1_000_000, 128), dtype=np.float32)
    directions = np.zeros((128, 64), dtype=np.float32)
    result = initscope.mean_width(points, draws=64)
    ours, product = in_turns(lambda: initscope.mean_width(points, draws=64), lambda: points @ directions, repeats=2)
    benchmark.extra_info.update(ours=ours, product=product, error=result.standard_error / result.value)
    benchmark.pedantic(lambda: None)
    print(f"{ours:.2f} s ({ours / product:.1f} products), standard error {result.standard_error / result.value:.2%}")
    assert result.standard_error < 0.01 * result.value
