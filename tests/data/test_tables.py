"""Tables and archives as people have them, each written by the library in question."""

import io
import json
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image

from initscope.data import load
from initscope.data.kinds import FILES, check_source
from initscope.errors import InputError

EXCEL = "\ufeffName;Größe;Preis;Stadt\r\nA;1,5;1.234,50;Köln\r\nB;;2,0;Bonn\r\nC;-2,5e3;3;Köln\r\nD;4;5%;Bonn\r\n"


def iris():
    pandas = pytest.importorskip("pandas")
    draws = np.random.default_rng(0)
    return pandas.DataFrame(
        {
            "length": draws.normal(size=12),
            "count": np.arange(12),
            "species": ["setosa", "virginica", "setosa"] * 4,
            "color": ["red", "blue", "green"] * 4,
        }
    )


def check_iris(data, frame):
    codes = [2, 0, 1] * 4  # blue, green, red
    np.testing.assert_allclose(data.images, np.stack([frame["length"], frame["count"], codes], 1), rtol=1e-6)
    assert data.column_names == ("length", "count", "color")
    assert data.labels.tolist() == [0, 1, 0] * 4
    assert data.class_names == ("setosa", "virginica")
    assert "color (0 blue, 1 green, 2 red)" in " ".join(data.steps)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "feather", "arrow", "jsonl"])
def test_files_of_pandas(tmp_path, suffix):
    frame, path = iris(), tmp_path / f"iris.{suffix}"
    if suffix in ("csv", "tsv"):
        frame.to_csv(path, sep="," if suffix == "csv" else "\t", index=False)
    elif suffix == "jsonl":
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    elif suffix == "arrow":
        pa = pytest.importorskip("pyarrow")
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, pa.Schema.from_pandas(frame)) as writer:
            writer.write_table(pa.Table.from_pandas(frame))
    else:
        pytest.importorskip("pyarrow")
        getattr(frame, f"to_{suffix}")(path)
    with pytest.warns(UserWarning, match="the categories of column 'color' are replaced by codes"):
        check_iris(load(path, target_column="species"), frame)
    some = load(path, target_column="species", columns=["count"], limit=4)
    assert (some.images[:, 0].tolist(), some.labels.tolist()) == ([0, 3, 6, 9], [0] * 4)


def test_tables_in_memory():
    frame, pa = iris(), pytest.importorskip("pyarrow")
    categories = frame.astype({"color": "category"})
    tables = [frame, categories, frame.set_index(frame["count"] * 2), pa.Table.from_pandas(frame)]
    for table in tables:
        with pytest.warns(UserWarning, match="codes"):
            check_iris(load(table, target_column="species"), frame)


def test_polars():
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    frame = iris()
    table = polars.DataFrame({name: frame[name].tolist() for name in frame})
    with pytest.warns(UserWarning, match="codes"):
        check_iris(load(table, target_column="species"), frame)
    ordered = table.with_columns(polars.col("color").cast(polars.Enum(["red", "green", "blue"])))
    with pytest.warns(UserWarning, match="codes"):
        data = load(ordered, target_column="species")
    assert data.images[:, 2].tolist() == [0, 2, 1] * 4  # codes in the order of the categories


def test_csv_of_excel(tmp_path):
    for encoding in ("utf-8", "utf-16", "cp1252"):
        text = EXCEL if encoding == "utf-8" else EXCEL.removeprefix("\ufeff")
        (tmp_path / "a.csv").write_bytes(("sep=;\r\n" * (encoding == "cp1252") + text).encode(encoding))
        data = load(tmp_path / "a.csv", target_column="Stadt", columns=["Größe", "Preis"])
        np.testing.assert_allclose(data.images, [[1.5, 1234.5], [np.nan, 2], [-2500, 3], [4, 0.05]], rtol=1e-6)
        assert (data.class_names, data.labels.tolist()) == (("Bonn", "Köln"), [1, 0, 1, 0])


def test_the_index_that_pandas_writes_is_no_input(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [0.5, 0.25, 4.0], "target": [0, 1, 1]})
    table.to_csv(tmp_path / "t.csv")
    data = load(tmp_path / "t.csv")
    assert np.array_equal(data.images, [[0.5], [0.25], [4.0]])
    assert "left out: column 0 (row numbers)" in data.summary
    table.to_csv(tmp_path / "named.csv", index_label="day")  # a column with a name is meant
    assert load(tmp_path / "named.csv").shape == (2,)


def test_csv_without_names_and_with_quotes(tmp_path):
    (tmp_path / "a.csv").write_text("1,2\n3,NA\n", encoding="utf-8")
    data = load(tmp_path / "a.csv")
    assert data.column_names == ("0", "1")
    np.testing.assert_array_equal(data.images, [[1, 2], [3, np.nan]])
    (tmp_path / "b.csv").write_text('a,b\n"1","x, y"\n2,"z\nz"\n', encoding="utf-8")
    with pytest.warns(UserWarning, match="codes"):
        assert load(tmp_path / "b.csv").steps == ("categories by codes: b (0 x, y, 1 z\nz)",)


def test_targets_are_classes_or_real_numbers(tmp_path):
    rows = [f"{number},{number % 3 + 1},{number / 7}" for number in range(30)]
    (tmp_path / "a.csv").write_text("x,class,price\n" + "\n".join(rows), encoding="utf-8")
    data = load(tmp_path / "a.csv")  # column "class" is taken by its name
    assert data.labels.tolist() == [number % 3 for number in range(30)]
    assert (data.class_names, data.column_names) == (("1", "2", "3"), ("x", "price"))
    data = load(tmp_path / "a.csv", target_column="price", columns=["x"])
    assert data.labels is None
    np.testing.assert_allclose(data.targets, np.arange(30) / 7, rtol=1e-6)
    assert data[3:5].targets.tolist() == data.targets[3:5].tolist()
    assert load(tmp_path / "a.csv", target_column="x").labels is None  # 30 different whole numbers are no classes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", r"line 3 has 1 cells but line 1 has 2"),
        ("a,a\n1,2\n", "line 1 names two columns 'a'"),
        ("a,b\n", "names but no rows"),
        ("", "has no rows"),
        ("a,b\n" + "1,2\n" * 20 + "1,two\n", "column 'b' holds 'two' in line 22, but numbers in most"),
        ("a,y\n1,1\n2,\n3,2\n", "target column 'y' has no value in 1 row, first in row 1"),
        ("y\n1\n2\n", "no columns besides the target"),
        ("a,y\n" + "".join(f"{n},name{n}\n" for n in range(9)), "'y' holds 9 different texts in 9 rows"),
    ],
)
def test_wrong_csv_files(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load(tmp_path / "a.csv")


def test_wrong_columns_and_missing_values(tmp_path):
    (tmp_path / "a.csv").write_text("age,name\n1,a b\n,c d\n3,e f\n4,g h\n5,i j\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"no column 'agee' \(did you mean age\?\); it has age, name"):
        load(tmp_path / "a.csv", columns=["agee"])
    with pytest.raises(InputError, match="column 'name' holds text, the others numbers"):
        load(tmp_path / "a.csv", columns=["age", "name"])
    from initscope.data.checks import check_set

    data = load(tmp_path / "a.csv")
    assert data.steps == ("left out: name (text)",)
    with pytest.raises(InputError, match="column 'age' has 1 missing or infinite values, first in row 1"):
        check_set(data)


def test_text_by_bytes_and_by_tokenizers(tmp_path):
    lines = [{"text": f"line {number}", "label": number % 2} for number in range(8)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    data = load(tmp_path / "a.jsonl", size=8)
    assert data.images[3].tolist() == [*b"line 3", 0, 0]
    assert data.labels.tolist() == [0, 1] * 4
    assert load(tmp_path / "a.jsonl", size=4, tokenizer=lambda text: [len(word) for word in text.split()]).images[
        0
    ].tolist() == [4, 1, 0, 0]
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0, "line": 1, "3": 2}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    assert load(tmp_path / "a.jsonl", size=3, tokenizer=words).images[3].tolist() == [1, 2, 0]
    with pytest.raises(InputError, match=r"tokenizer 'nowhere' is not a folder"):
        load(tmp_path / "a.jsonl", tokenizer="nowhere")


def test_tokenizer_of_transformers(tmp_path):
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0, "line": 1, "3": 2, "_": 9}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="_", unk_token="?")
    (tmp_path / "a.jsonl").write_text('"line 3"\n"line line line line"\n', encoding="utf-8")
    data = load(tmp_path / "a.jsonl", size=3, tokenizer=fast)
    assert data.images.tolist() == [[1, 2, 9], [1, 1, 1]]
    assert "1 texts cut, 1 padded with 9" in data.steps[0]
    fast.save_pretrained(tmp_path / "words")
    assert load(tmp_path / "a.jsonl", size=3, tokenizer=str(tmp_path / "words")).images.tolist() == data.images.tolist()


def test_wrong_json_lines(tmp_path):
    for text, message in (
        ('{"a": 1}\n{"a": \n', "line 2 is not JSON"),
        ("[1, 2]\n", "line 1 holds a list; give one object"),
        ('{"a": 1}\n\n{"a": 2}\n{"a": "x"}\n', "column 'a' holds a text in line 4, but mostly a number"),
        ('{"a": [1, 2]}\n{"b": 3}\n', "column 'a' has no list in line 2"),
        ('{"a": [1, 2]}\n{"a": [1]}\n', "column 'a' holds lists of different lengths, first in line 2"),
    ):
        (tmp_path / "a.jsonl").write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            load(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").write_text('{"a": [1, 2.5]}\n{"a": [3, 4]}\n', encoding="utf-8")
    assert load(tmp_path / "a.jsonl").images.tolist() == [[1, 2.5], [3, 4]]


def test_arrow_types(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    import datetime

    days = [datetime.date(1970, 1, 2), None, datetime.date(1970, 1, 4)]
    table = pa.table(
        {
            "flag": [True, None, False],
            "day": pa.array(days),
            "time": pa.array([datetime.datetime(1970, 1, 1, 12)] * 3),
            "amount": pa.array([1, 2, 3], pa.decimal128(5, 2)),
            "object": [{"a": 1}] * 3,
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    data = load(tmp_path / "a.parquet")
    np.testing.assert_array_equal(data.images, [[1, 1, 0.5, 1], [np.nan, np.nan, 0.5, 2], [0, 3, 0.5, 3]])
    assert data.steps == ("left out: object (values of type struct<a: int64>)",)
    lists = pa.table({"x": [[[1.0, 2.0]], [[3.0, 4.0]]], "y": [0, 1]})
    assert load(lists).images.tolist() == [[[[1, 2]]], [[[3, 4]]]]  # images with a gray channel
    with pytest.raises(InputError, match="lists of column 'x' have different lengths, 1 in row 0 and 2 in row 1"):
        load(pa.table({"x": [[1], [2, 3]]}))
    with pytest.raises(InputError, match="two columns 'a'"):
        load(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1" + bytes(20))
    with pytest.raises(InputError, match=r"bad.parquet is not a Parquet file, or damaged"):
        load(tmp_path / "bad.parquet")


def test_folders_of_parquet(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for number in range(2):
        parquet.write_table(pa.table({"x": [number, number], "z": [0.5, 1]}), tmp_path / f"{number}.parquet")
    assert load(tmp_path).images.tolist() == [[0, 0.5], [0, 1], [1, 0.5], [1, 1]]


def test_data_sets_of_hugging_face(tmp_path):
    datasets = pytest.importorskip("datasets")
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), np.uint8)
    images = datasets.Dataset.from_dict(
        {"image": [Image.fromarray(one) for one in pixels], "label": [0, 1] * 3},
        features=datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}),
    )
    data = load(images)
    np.testing.assert_allclose(data.images, pixels.transpose(0, 3, 1, 2) / 255, atol=1e-6)
    assert (data.class_names, data.labels.tolist()) == (("cat", "dog"), [0, 1] * 3)
    assert load(images, size=4, limit=2).images.shape == (2, 3, 4, 4)
    assert load(images.select([5, 0])).labels.tolist() == [1, 0]
    both = datasets.DatasetDict({"train": images, "test": images.select([1])})
    assert (len(load(both)), len(load(both, split="test"))) == (6, 1)
    with pytest.raises(InputError, match="no split 'dev'; give one of train, test as split="):
        load(both, split="dev")
    both.save_to_disk(tmp_path / "both")
    assert load(tmp_path / "both").class_names == ("cat", "dog")
    images.to_parquet(tmp_path / "a.parquet")
    np.testing.assert_allclose(load(tmp_path / "a.parquet").images, data.images)


def test_safetensors(tmp_path):
    torch_files = pytest.importorskip("safetensors.torch")
    values = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        tensors = {"odd": torch.ones(3, dtype=torch.uint8), "x": values.to(dtype), "labels": torch.arange(5)}
        torch_files.save_file(tensors, tmp_path / "a.safetensors")
        data = load(tmp_path / "a.safetensors")
        np.testing.assert_array_equal(data.images, values.to(dtype).float())
        assert data.labels.tolist() == [0, 1, 2, 3, 4]
    assert load(tmp_path / "a.safetensors", limit=2).labels.tolist() == [0, 2]
    whole = (tmp_path / "a.safetensors").read_bytes()
    for damaged in (whole[:-4], whole[:20], b"", b"\xff" * 40, whole.replace(b"F64", b"F99")):
        (tmp_path / "b.safetensors").write_bytes(damaged)
        with pytest.raises(InputError, match=r"b.safetensors is not a .safetensors file, or damaged"):
            load(tmp_path / "b.safetensors")


def test_safetensors_weights(tmp_path):
    from initscope.models import load_model

    torch_files = pytest.importorskip("safetensors.torch")
    model = load_model("dense4-relu-dense2", input_shape=(3,), seed=1)
    torch_files.save_file(model.state_dict(), tmp_path / "w.safetensors")
    loaded = load_model("dense4-relu-dense2", input_shape=(3,), weights=tmp_path / "w.safetensors")
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in model.state_dict().items())


def archive(path, files, mode="w"):
    with tarfile.open(path, mode) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def encoded(value, size=8):
    stream = io.BytesIO()
    Image.fromarray(np.full((size, size), value, np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def test_webdataset(tmp_path):
    files = {}
    for number in range(4):
        files |= {
            f"a/{number:03}.png": encoded(50 * number),
            f"a/{number:03}.cls": str(number % 2).encode(),
            f"a/{number:03}.json": json.dumps({"width": number}).encode(),
        }
    archive(tmp_path / "a.tar", files)
    data = load(tmp_path / "a.tar")
    np.testing.assert_allclose(data.images[:, 0, 0, 0], np.arange(4) * 50 / 255, atol=1e-6)
    assert (data.images.shape, data.labels.tolist()) == ((4, 1, 8, 8), [0, 1, 0, 1])
    assert load(tmp_path / "a.tar", size=4, limit=2).images.shape == (2, 1, 4, 4)
    assert load(tmp_path / "a.tar", columns=["width"]).images.tolist() == [[0], [1], [2], [3]]
    archive(tmp_path / "a.tar.gz", files, "w:gz")
    np.testing.assert_array_equal(load(tmp_path / "a.tar.gz").images, data.images)


def test_wrong_archives(tmp_path):
    good = {"0.png": encoded(0), "0.cls": b"0", "1.png": encoded(9), "1.cls": b"1"}
    for files, message in (
        (good | {"1.png": b"no image"}, r"a.tar: 1.png is not a readable image"),
        (good | {"1.png": encoded(9, 4)}, r"sample '0' is 8×8, sample '1' is 4×4"),
        (good | {"2.cls": b"1"}, r"sample '2' has no 'png'|sample '2' has no 'image'"),
        ({"README": b"x"}, "holds no samples"),
        ({"0.json": b"{"}, "0.json is not JSON"),
    ):
        archive(tmp_path / "a.tar", files)
        with pytest.raises(InputError, match=message):
            load(tmp_path / "a.tar")
    (tmp_path / "a.tar").write_bytes(b"x" * 2000)
    with pytest.raises(InputError, match="not a tar archive"):
        load(tmp_path / "a.tar")


def test_refused_sources(tmp_path):
    for name, advice in (
        ("a.xlsx", "save the sheet as CSV"),
        ("a.pkl", "a pickle runs code"),
        ("a.csv.gz", "unpack it first"),
        ("a.xyz", r"give one of .npy, .npz"),
        ("a.png", "give the folder that holds"),
    ):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(InputError, match=advice):
            check_source(str(tmp_path / name))
    with pytest.raises(InputError, match="neither a name"):
        check_source("nowhere")
    with pytest.raises(InputError, match=r"b.csv is not a file \(did you mean .*a.csv"):
        check_source(str(tmp_path / "b.csv"))
    for suffix in FILES:
        with pytest.raises(InputError, match="is not a file"):
            check_source(f"nowhere{suffix}")
    with pytest.raises(InputError, match="digits is no table"):
        load("digits", target_column="y")
    with pytest.raises(InputError, match="data of type int is not known"):
        load(3)
    with pytest.raises(InputError, match="has no option 'crop'"):
        load(np.zeros((3, 3)), crop=3)


def test_a_table_names_only_images_of_its_folder(tmp_path):
    """A table from elsewhere must not show a file of the user's home."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "shared"
    folder.mkdir()
    for file in (tmp_path / "private.png", folder / "own.png"):
        file.write_bytes(encoded(7))
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])

    def table(path):
        parquet.write_table(pa.table({"image": pa.array([{"bytes": None, "path": path}], kind)}), folder / "t.parquet")
        return folder / "t.parquet"

    assert len(load(table("own.png"))) == len(load(table(str(folder / "own.png")))) == 1
    for path in ("../private.png", str(tmp_path / "private.png")):
        with pytest.raises(InputError, match="outside of the folder of the table"):
            load(table(path))
