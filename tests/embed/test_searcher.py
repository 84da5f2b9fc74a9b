"""`Searcher` against brute force; removal, radius, files left on the disk, and life without faiss."""

import numpy as np
import pytest

from initscope.embed import HammingIndex, Searcher, within_radius
from initscope.embed._container import write_arrays
from initscope.embed.codes import hamming_distance
from initscope.errors import InputError


def points(count=3000, width=48, seed=0):
    """Rows around 100 centers: every row has neighbours that are nearer than chance."""
    draw = np.random.default_rng(seed)
    return draw.standard_normal((100, width))[draw.integers(0, 100, count)] + 0.7 * draw.standard_normal((count, width))


def nearest_by_cosine(X, Q, k):
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, Q)]
    return np.argsort(-unit[1] @ unit[0].T, axis=1, kind="stable")[:, :k]


def recall(found, truth):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, truth)])


def test_reranking_finds_what_codes_alone_miss():
    X = points()
    Q = X[:50] + 0.2 * np.random.default_rng(1).standard_normal((50, 48))
    truth = nearest_by_cosine(X, Q, 10)
    searcher = Searcher(bits=256, rerank=200).fit(X)
    found = searcher.search(Q, 10)
    alone = Searcher(bits=256, rerank=0).fit(X).search(Q, 10)
    assert recall(found.ids, truth) > 0.98
    assert recall(alone.ids, truth) < 0.8
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    asked = Q / np.linalg.norm(Q, axis=1, keepdims=True)
    exact = 1 - np.einsum("qkn,qn->qk", unit[found.ids], asked)
    np.testing.assert_allclose(found.distances, exact, atol=1e-12)
    itself = searcher.search(X, 1)
    assert (itself.ids[:, 0] == np.arange(len(X))).all()
    assert itself.distances.min() == 0  # not -2e-16, of which a root is NaN


@pytest.mark.parametrize("candidates", [0, 20, 100])
def test_recall_is_what_a_search_finds(candidates):
    """Exactly, for every number of candidates: against brute force, ties of codes included (24 bits have many)."""
    X, Q = points(2000), points(60, seed=3)
    truth = nearest_by_cosine(X, Q, 10)
    searcher = Searcher(bits=24, rerank=candidates).fit(X)
    found = searcher.recall(Q, 10)
    assert found.share == pytest.approx(recall(searcher.search(Q, 10).ids, truth), abs=1e-12)
    for share in (0.3, 0.9, 1.0):
        more = found.candidates_for(share)
        searcher.rerank = max(more, 10)
        reached = recall(searcher.search(Q, 10).ids, truth)
        assert reached >= share - 1e-12
        if more > 10:
            assert found.share_of(more)[0] == pytest.approx(reached, abs=1e-12)
            assert found.share_of(more - 1)[0] < share


def test_recall_of_its_own_vectors_leaves_each_out(monkeypatch):
    """Every vector as a query, by brute force among the others; removed ones are no neighbours; block by block."""
    monkeypatch.setattr("initscope.embed.recall._BLOCK_ELEMENTS", 1 << 12)
    X = points(150)
    searcher = Searcher(bits=32, rerank=20).fit(X[:100])
    searcher.add(X[100:])
    searcher.remove(range(0, 150, 7))
    kept = np.setdiff1d(np.arange(150), np.arange(0, 150, 7))
    found = searcher.recall(k=5, sample=1000)
    unequal = (searcher.hasher.transform(X[kept])[:, None] ^ searcher.hasher.transform(X[kept])[None]).view(np.uint32)
    distances = np.bitwise_count(unequal).sum(axis=-1).astype(int)
    shares = []
    for each in range(len(kept)):
        others = np.delete(np.arange(len(kept)), each)
        near = nearest_by_cosine(X[kept[others]], X[kept[each : each + 1]], 5)[0]
        order = np.argsort(distances[each, others], kind="stable")
        shares.append(np.isin(near, order[:20]).mean())
    assert found.vectors == len(kept) - 1
    assert found.share == pytest.approx(np.mean(shares), abs=1e-12)
    assert found.standard_error == 0  # all vectors were asked: nothing is left to chance
    theirs = searcher.recall(X[kept], k=6)  # the same vectors as queries from elsewhere, of which there may be more
    assert theirs.standard_error == pytest.approx((theirs.ranks <= 20).mean(axis=1).std(ddof=1) / len(kept) ** 0.5)


@pytest.mark.parametrize("bits", [256, 1024])
def test_the_rule_for_candidates(bits):
    """What lies within 1.5 and 2 spreads of the tenth neighbour holds .93 and .99 of the ten nearest, as documented.

    Gaussian points, the worst there are; were the spread √(θ/bits) without its π, 2 would hold .90 and .93.
    """
    X = np.random.default_rng(0).standard_normal((8000, 96))
    Q = np.random.default_rng(1).standard_normal((100, 96))
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, Q)]
    angles = np.sort(np.arccos(unit[1] @ unit[0].T), axis=1)
    spread = np.sqrt(np.pi * np.median(angles) / bits)
    places = Searcher(bits=bits).fit(X).recall(Q, 10).ranks
    for times, share in ((1.5, 0.93), (2, 0.99)):
        candidates = (angles <= angles[:, 9:10] + times * spread).sum(axis=1)
        assert (places <= candidates[:, None]).mean() > share


def test_recall_that_cannot_be_counted_says_so():
    with pytest.raises(InputError, match="0 vectors have no neighbors; add at least two"):
        Searcher(bits=64).recall()
    searcher = Searcher(bits=64).fit(points(20))
    with pytest.raises(InputError, match=r"k = 20 must be .* at most 19; each query has 19 vectors to find"):
        searcher.recall(k=20)
    with pytest.raises(InputError, match="Q has no rows"):
        searcher.recall(points(0))
    with pytest.raises(InputError, match="k = a must be a whole number"):
        searcher.recall(k="a")
    with pytest.raises(InputError, match=r"share = 0 must be .*; 0.95 finds 95 of 100"):
        searcher.recall(k=5).candidates_for(0)


def test_all_candidates_give_the_exact_answer():
    X = points(200)
    found = Searcher(bits=16, rerank=200).fit(X).search(X[:20], 10)
    np.testing.assert_array_equal(found.ids, nearest_by_cosine(X, X[:20], 10))


def test_a_searcher_without_vectors_says_so():
    X = points(20)
    emptied = Searcher(bits=64).fit(X)
    emptied.remove(range(20))
    for searcher in (Searcher(bits=64), emptied):
        with pytest.raises(InputError, match=r"holds no vectors to search; call fit\(X\) first, or add\(X\)"):
            searcher.search(X[:2])
    assert emptied.radius(X[:2], 64).ids.size == 0


def test_add_and_remove():
    X, more = points(300), points(100, seed=5)
    searcher = Searcher(bits=64, rerank=400).fit(X)
    np.testing.assert_array_equal(searcher.add(more), np.arange(300, 400))
    assert searcher.search(more[:3], 1).ids[:, 0].tolist() == [300, 301, 302]
    assert searcher.remove([300, 302, 999]) == 2
    found = searcher.search(more[:3], 5).ids
    assert len(searcher) == 398
    assert not {300, 302} & set(found.ravel().tolist())
    assert found[1, 0] == 301


def test_a_file_stays_on_the_disk(tmp_path):
    X = points(400).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    mapped = Searcher(bits=64, rerank=50).fit(tmp_path / "X.npy")
    assert all(isinstance(part, np.memmap) for part in mapped._parts)
    held = Searcher(bits=64, rerank=50).fit(X)
    np.testing.assert_array_equal(mapped.search(X[:9], 5).ids, held.search(X[:9], 5).ids)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.uint8])
def test_a_saved_searcher_goes_on_where_it_was(tmp_path, dtype):
    X = (100 + 20 * points(400)).clip(0, 255).astype(dtype)
    np.save(tmp_path / "X.npy", X)
    searcher = Searcher(bits=64, rerank=50).fit(tmp_path / "X.npy")
    searcher.add(X[:100])
    searcher.remove([3, 499])
    searcher.save(tmp_path / "a.search")
    again = Searcher.load(tmp_path / "a.search")
    assert (len(again), again.rerank, repr(again)) == (498, 50, repr(searcher))
    asked = [(each.search(X[:9], 5), each.radius(X[:9], 4)) for each in (again, searcher)]
    for mine, theirs in zip(*asked):
        np.testing.assert_array_equal(mine.ids, theirs.ids)
        np.testing.assert_array_equal(mine.distances, theirs.distances)
    assert again.add(X[:2]).tolist() == [500, 501]  # the id 499 is not given again


def test_a_file_of_a_searcher_is_not_trusted(tmp_path):
    X = points(50)
    file = tmp_path / "a.search"
    Searcher(bits=32).fit(X).save(file)
    whole = file.read_bytes()
    for torn in (whole[:-1], whole[:40], whole[:200] + b"x" + whole[201:], b""):
        file.write_bytes(torn)
        with pytest.raises(InputError):
            Searcher.load(file)
    meta, arrays = ({"rerank": 10, "hash": {}, "index": {}, "parts": 0}, {})
    write_arrays(file, b"initscope-seek1\n", 1, meta, arrays)
    with pytest.raises(InputError, match="no usable searcher"):
        Searcher.load(file)
    fitted, other = Searcher(bits=32).fit(X), Searcher(bits=32).fit(X[:20])
    fitted._parts, fitted._ends = other._parts, other._ends  # codes of 50 vectors, 20 of them there
    fitted.save(file)
    with pytest.raises(InputError, match="do not belong together"):
        Searcher.load(file)


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_radius_is_exact(kind):
    draw = np.random.default_rng(0)
    codes, asked = (draw.integers(0, 4, (count, 3), dtype=np.uint8) for count in (300, 20))
    index = HammingIndex(24, kind)
    index.add(codes, ids=np.arange(300) * 7)
    found = within_radius(index, asked, 2)
    expected = {
        (q, 7 * c)
        for q in range(20)
        for c in np.flatnonzero(hamming_distance(np.repeat(asked[q : q + 1], 300, 0), codes) <= 2)
    }
    assert set(zip(found.queries.tolist(), found.ids.tolist())) == expected
    assert len(found.table()) == len(expected)
    assert (np.diff(found.queries) >= 0).all()


def test_without_faiss_the_answers_are_the_same(monkeypatch, tmp_path):
    codes = np.random.default_rng(0).integers(0, 8, (500, 2), dtype=np.uint8)  # many ties
    with_it = HammingIndex(16)
    with_it.add(codes)
    monkeypatch.setattr("initscope.embed.index.has_faiss", lambda: False)
    without = HammingIndex(16)
    without.add(codes[:200])
    without.add(codes[200:])
    for mine, theirs in zip(without.search(codes[:30], 12), with_it.search(codes[:30], 12)):
        np.testing.assert_array_equal(mine, theirs)
    assert without.remove([0, 1]) == 2
    without.save(tmp_path / "plain.index")
    monkeypatch.undo()
    assert len(HammingIndex.load(tmp_path / "plain.index")) == 498


def test_bad_vectors_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"no \.npy file"):
        Searcher().fit(tmp_path / "nothing.npy")
    with pytest.raises(InputError, match="matrix of numbers"):
        Searcher().fit(np.zeros(5))
    with pytest.raises(InputError, match="k = 9"):
        Searcher(bits=8, rerank=2).fit(points(5)).search(points(1), 9)


def test_commands(tmp_path, monkeypatch, capsys):
    """From vectors to answers on the command line: build, add, remove, radius, exact re-ranking."""
    import json

    from initscope.cli import main

    monkeypatch.chdir(tmp_path)
    X = points(300).astype(np.float32)
    np.save("X.npy", X)
    np.save("Q.npy", X[:4] + np.float32(0.01))
    main(["hash", "fit", "x.hash", "--data", "X.npy", "--bits", "64"])
    for name in ("X", "Q"):
        main(f"hash encode x.hash {name}.npz --data {name}.npy".split())
    main(["search", "build", "X.npz", "x.index"])
    capsys.readouterr()
    main(
        [
            "search",
            "query",
            "x.index",
            "Q.npz",
            "--k",
            "3",
            "--rerank",
            "300",
            "--vectors",
            "X.npy",
            "--queries",
            "Q.npy",
            "--format",
            "json",
        ]
    )
    found = json.loads(capsys.readouterr().out)
    np.testing.assert_array_equal(found["ids"], nearest_by_cosine(X, np.load("Q.npy"), 3))
    main(["search", "recall", "x.index", "--vectors", "X.npy", "--k", "3", "--rerank", "30", "--format", "json"])
    counted = json.loads(capsys.readouterr().out)
    assert counted["share"] == pytest.approx((np.array(counted["ranks"]) <= 30).mean())
    assert (counted["seed"], counted["k"], counted["vectors"]) == (0, 3, 299)
    main(["search", "recall", "x.index", "--vectors", "X.npy", "--k", "3"])
    assert "share of the 3 nearest by cosine of 100 of the vectors" in " ".join(capsys.readouterr().out.split())
    main(["search", "add", "x.index", "Q.npz"])
    main(["search", "remove", "x.index", "0", "1"])
    assert len(HammingIndex.load("x.index")) == 302
    capsys.readouterr()
    main(["search", "radius", "x.index", "Q.npz", "--radius", "0", "--format", "json"])
    assert {300, 301, 302, 303} <= set(json.loads(capsys.readouterr().out)["ids"])


def test_nearest_rows_without_faiss(monkeypatch):
    from initscope._utils import faiss

    X = points(300).astype(np.float32)
    with_it = faiss.nearest_rows(X[:40], X, 5)
    monkeypatch.setattr(faiss, "has_faiss", lambda: False)
    without = faiss.nearest_rows(X[:40], X, 5)
    np.testing.assert_array_equal(without[1], with_it[1])
    np.testing.assert_allclose(without[0], with_it[0], rtol=1e-4, atol=1e-3)
