"""Data in blocks against the same data in memory: sources, codes, neighbours, widths and kernels."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

import initscope
from initscope.cli import main
from initscope.cli._vectors import read_codes, stored_codes
from initscope.data import load
from initscope.distributed import merge_nearest, model_names, nearest_in_blocks, open_blocks
from initscope.embed import SignHash, save_hasher
from initscope.errors import InputError

ROWS = 7  # of a block: neither even nor a divisor of anything below


@pytest.fixture
def arrays(tmp_path):
    """Bytes of 50 small images, and where they lie as .npy, Parquet (two files, two forms) and a folder of images."""
    pixels = np.random.default_rng(1).integers(0, 256, (50, 6, 6), dtype=np.uint8)
    np.save(tmp_path / "images.npy", pixels)
    (tmp_path / "folder").mkdir()
    for number, picture in enumerate(pixels):
        folder = tmp_path / "folder" / ("even" if number % 2 == 0 else "odd")
        folder.mkdir(exist_ok=True)
        Image.fromarray(picture).save(folder / f"{number:02}.png")
    return tmp_path, pixels


def parquet(folder, pixels):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (folder / "lists").mkdir()
    flat, labels = pixels.reshape(50, 36), np.arange(50) % 2
    for number, part in enumerate((slice(0, 30), slice(30, 50))):
        rows = pa.FixedSizeListArray.from_arrays(pa.array(flat[part].ravel()), 36)
        pq.write_table(
            pa.table({"x": rows, "label": labels[part]}), folder / f"lists/{number}.parquet", row_group_size=4
        )
    columns = {f"p{k}": flat[:, k] / np.float32(255) for k in range(36)}
    pq.write_table(pa.table(columns), folder / "columns.parquet", row_group_size=4)


def whole(blocks):
    return np.concatenate([block.read().images for block in blocks])


def test_sources(arrays):
    folder, pixels = arrays
    expected = pixels[:, None] / np.float32(255)
    blocks = open_blocks(folder / "images.npy", rows=ROWS)
    assert [len(block) for block in blocks] == [7] * 7 + [1]
    assert np.array_equal(whole(blocks), expected)
    pictures = open_blocks(folder / "folder", rows=ROWS)
    loaded = load(str(folder / "folder"))
    assert np.array_equal(whole(pictures), loaded.images)
    assert np.array_equal(np.concatenate([block.read().labels for block in pictures]), loaded.labels)
    assert whole(open_blocks(folder / "folder", rows=20, size=3)).shape == (50, 1, 3, 3)
    normal = open_blocks(folder / "images.npy", rows=ROWS, normalize="0.5,0.25")
    assert np.allclose(whole(normal), (expected - 0.5) / 0.25)


def test_parquet(arrays):
    folder, pixels = arrays
    parquet(folder, pixels)
    expected = pixels.reshape(50, 36) / np.float32(255)
    for name in ("lists", "columns.parquet"):
        blocks = open_blocks(folder / name, rows=ROWS)
        assert np.array_equal(whole(blocks), expected)
        assert max(len(block) for block in blocks) <= ROWS
    assert np.array_equal(np.concatenate([b.read().labels for b in open_blocks(folder / "lists")]), np.arange(50) % 2)
    assert open_blocks(folder / "lists", shape=(1, 6, 6)).shape == (1, 6, 6)
    with pytest.raises(InputError, match="rows of 36 values"):
        open_blocks(folder / "lists", shape=(2, 6, 6))


def test_parquet_of_floats_is_ours_to_write(tmp_path):
    """Arrow's memory is not, and torch warns of it."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    pq.write_table(pa.table({"x": list(rows)}), tmp_path / "x.parquet")
    (block,) = open_blocks(tmp_path / "x.parquet")
    images = block.read().images
    assert images.flags.writeable
    assert np.array_equal(images, rows)


def test_categories_of_parquet_are_left_out(tmp_path):
    """Their codes may differ between row groups: "b" is the first category of the second."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    kinds = pa.array(["a", "a", "b", "b"]).dictionary_encode()
    table = pa.table({"x": [1.0, 2.0, 3.0, None], "kind": kinds, "n": [True, False, True, True]})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=2)
    first, second = (block.read().images.squeeze() for block in open_blocks(tmp_path / "x.parquet", rows=2))
    np.testing.assert_array_equal(first, [[1, 1], [2, 0]])
    np.testing.assert_array_equal(second, [[3, 1], [np.nan, 1]])


def test_dask_array(arrays):
    pytest.importorskip("dask.array")
    folder, pixels = arrays
    found = open_blocks(folder / "images.npy", rows=ROWS).dask_array()
    assert found.chunks[0] == (7,) * 7 + (1,)
    assert np.allclose(found.mean(axis=0).compute(scheduler="synchronous")[0], pixels.mean(axis=0) / 255, atol=1e-6)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"\x93NUMPY\x01\x00", bytes(range(200))])
@pytest.mark.parametrize("name", ["x.npy", "x.parquet"])
def test_damaged_files_are_refused(tmp_path, name, content):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name):
        open_blocks(tmp_path / name)


def test_what_cannot_be_read_in_blocks(arrays, tmp_path):
    folder, pixels = arrays
    np.save(tmp_path / "columns.npy", np.asfortranarray(pixels.reshape(50, 36)))
    np.savez(tmp_path / "several.npz", a=pixels, b=pixels)
    for name, message in (("columns.npy", "column by column"), ("several.npz", "several arrays")):
        with pytest.raises(InputError, match=message):
            open_blocks(tmp_path / name)
    with pytest.raises(InputError, match="all data at once"):
        open_blocks(folder / "images.npy", normalize="standardize")


def test_merging_the_nearest_is_exact():
    """All ways to cut 40 codes of 6 bits, so full of ties, in two: the 9 nearest of all, ties in their order."""
    rng = np.random.default_rng(2)
    distances = rng.integers(0, 4, (3, 40))
    order = np.argsort(distances, axis=1, kind="stable")

    def nearest(part):
        inside = [[place for place in row if part.start <= place < part.stop][:9] for row in order]
        return np.take_along_axis(distances, np.array(inside), axis=1), np.array(inside)

    for cut in range(9, 31):
        merged = merge_nearest(nearest(slice(cut, 40)), nearest(slice(0, cut)), 9)
        assert np.array_equal(merged[1], order[:, :9])
        assert np.array_equal(merged[0], np.take_along_axis(distances, order[:, :9], axis=1))


@pytest.fixture(scope="module")
def scheduler():
    """A Dask cluster in this process; real ones are tried with the sweeps."""
    distributed = pytest.importorskip("dask.distributed")
    options = {"processes": False, "n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        yield cluster.scheduler_address


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("where", ["here", "dask"])
def test_commands_in_blocks_say_what_they_say_of_all(arrays, where, capsys, request):
    folder, pixels = arrays
    data = ["--data", str(folder / "images.npy")]
    blocks = ["--rows", str(ROWS)] + (["--dask", request.getfixturevalue("scheduler")] if where == "dask" else [])
    width = [json_of(capsys, "mean-width", *data, *more, "--draws", "16") for more in ([], blocks)]
    assert width[0].keys() == width[1].keys()
    same(width[0], width[1], 1e-6)
    layers = [
        json_of(capsys, "mean-width", "conv3x3x4-relu-dense5", *data, *more, "--draws", "16") for more in ([], blocks)
    ]
    for whole, parts in zip(layers[0]["rows"], layers[1]["rows"], strict=True):
        assert whole["layer"] == parts["layer"]
        same(whole["width"], parts["width"], 1e-5)
    main(["kernel", "conv3x3x4-relu", *data, "--out", str(folder / "all.npy")])
    main(["kernel", "conv3x3x4-relu", *data, *blocks, "--out", str(folder / "parts.npy")])
    assert np.abs(np.load(folder / "all.npy") - np.load(folder / "parts.npy")).max() < 3e-7
    pytest.importorskip("faiss")
    save_hasher(SignHash(bits=12).fit(pixels.reshape(50, 36) / 255), folder / "a.hash")
    main(["hash", "encode", str(folder / "a.hash"), str(folder / "all.npz"), *data])
    for name in ("parts.npz", "bare.npy"):
        main(["hash", "encode", str(folder / "a.hash"), str(folder / name), *data, *blocks])
        assert np.array_equal(read_codes(folder / name).codes, read_codes(folder / "all.npz").codes)
    assert read_codes(folder / "parts.npz").bits == 12
    main(["search", "build", str(folder / "all.npz"), str(folder / "index")])
    query = ("search", "query"), (str(folder / "all.npz"), "--k", "9")
    capsys.readouterr()
    expected = json_of(capsys, *query[0], str(folder / "index"), *query[1])
    assert json_of(capsys, *query[0], str(folder / "parts.npz"), *query[1], *blocks) == expected


def same(found, expected, tolerance):
    for name, value in expected.items():
        assert found[name] == (value if isinstance(value, str | None) else pytest.approx(value, rel=tolerance))


def json_of(capsys, *arguments):
    main([*arguments, "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    return {name: value for name, value in told.items() if name not in ("data", "seed", "versions")}  # how it was asked


def test_labels_of_folders_go_with_the_codes(arrays):
    pytest.importorskip("faiss")
    folder, pixels = arrays
    save_hasher(SignHash(bits=16).fit(pixels.reshape(50, 36) / 255), folder / "a.hash")
    main(
        [
            "hash",
            "encode",
            str(folder / "a.hash"),
            str(folder / "c.npz"),
            "--data",
            str(folder / "folder"),
            "--rows",
            "8",
        ]
    )
    assert read_codes(folder / "c.npz").labels.tolist() == [0] * 25 + [1] * 25


def test_memory_does_not_grow_with_the_data(tmp_path):
    """40 MB of codes by blocks of a megabyte: what NumPy holds at once stays below 8 MB."""
    import tracemalloc

    pytest.importorskip("faiss")
    count = 5_000_000
    codes = np.lib.format.open_memmap(tmp_path / "codes.npy", mode="w+", dtype=np.uint8, shape=(count, 8))
    codes[:] = np.random.default_rng(3).integers(0, 256, (1, 8), dtype=np.uint8)
    codes[count - 5] ^= 1
    codes.flush()
    stored, bits = stored_codes(tmp_path / "codes.npy")
    query = codes[count - 5 : count - 4].copy()
    del codes
    tracemalloc.start()
    distances, ids = nearest_in_blocks(stored, bits, query, 2, rows=100_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ids.tolist() == [[count - 5, 0]]
    assert distances[0, 0] == 0
    assert peak < 8e6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mean-width", "--rows", "5"], "no --data"),
        (["mean-width", "--data", "images.npy", "--limit", "5", "--rows", "5"], "--limit"),
        (["mean-width", "--data", "images.npy", "--rows", "0"], "rows = 0"),
        (["mean-width", "--data", "images.npy", "--dask", "tcp://127.0.0.1:1"], "no scheduler answers"),
        (["kernel", "dense4", "--data", "digits", "--rows", "5", "--out", "k.npy"], "digits"),
        (["search", "query", "images.npy", "images.npy", "--rows", "5"], "no codes"),
    ],
)
def test_bad_use_is_one_line(arrays, monkeypatch, arguments, message, capsys):
    monkeypatch.chdir(arrays[0])
    monkeypatch.setattr("initscope.distributed.cluster._CONNECT", 0.2)
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert message in capsys.readouterr().err.strip().splitlines()[-1]


def test_two_widths_are_one(tmp_path):
    """Tallies of any cuts of 11 points, odd ones too, merge to the tally of all."""
    from initscope.measurement.width import RunningWidth

    points = np.random.default_rng(4).standard_normal((11, 5))
    center = points.mean(axis=0)
    expected = initscope.mean_width(points, draws=8)
    for cut in range(1, 11):
        first, second = (RunningWidth(8, 0, center=center) for _ in range(2))
        first.add(points[:cut])
        second.add(points[cut:])
        first.merge(second)
        found = first.result().to_dict()
        same(found, expected.to_dict(), 1e-12)


def test_threads_of_a_worker_share_one_model():
    """Two that drew its weights at once gave two models, and a kernel of both."""
    name = model_names.named_model("conv3x3x4-relu", None, (1, 6, 6), 0)
    with ThreadPoolExecutor(8) as pool:
        built = list(pool.map(model_names.built_model, [name] * 8))
    assert all(model is built[0] for model in built)
