"""What `--help` shows in addition to options: the group of every command, and examples.

To document a new command, add its examples to `EXAMPLES` and its name to a group. Every line is run by the tests.
"""

from __future__ import annotations

from cyclopts import Group

__all__ = ["DATA", "EXAMPLES", "MODEL", "OUTPUT", "WORK", "command_group", "examples"]

MODEL = Group("Model", sort_key=1)
DATA = Group("Data", sort_key=2)
WORK = Group("What to compute", sort_key=3)
OUTPUT = Group("Output", sort_key=4)

_GROUPS = {
    "Will it train, and what to change": ("demo", "inspect", "compare", "data", "open"),
    "Layer by layer": ("predict", "measure", "kernel", "coordinates", "mean-width", "flatness", "separation"),
    "How large": ("plan", "injectivity"),
    "Use random networks": ("hash", "search", "invert", "discriminate"),
    "Many runs": ("sweep",),
    "Theory": ("theorem", "reproduce"),
    "Set up": ("completion", "mcp"),
}
EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("demo", "demo --depth 20 --draws 2 --out deep.html"),
    "inspect": (
        "inspect dense64-relu*40-dense10 --data digits",
        "inspect mynet.py:make --data photos --out report.html --fail-on error",
        "inspect dense64-relu*4 --data digits --no-alternatives --save mine.initscope",
    ),
    "compare": (
        "compare dense64-relu*20-dense10 dense64-tanh*20-dense10 --data digits --no-alternatives --out both.html",
        "compare mynet.py:make epoch1.pt epoch9.pt --data photos",
        "compare dense64-relu*20-dense10 --initializers he,glorot --data digits --no-alternatives",
        "compare before.initscope after.initscope",
    ),
    "data": ("data digits", "data photos --limit 60 --out photos.html", "data digits --format md"),
    "open": ("open mine.initscope --out page.html", "open mine.initscope --format json"),
    "predict": (
        'predict "conv3x3x64-relu*12" --data photos --pairs 50',
        "predict dense1000-relu*10 --input-shape 50 --initializer glorot --format csv",
    ),
    "measure": (
        "measure conv3x3x16-relu*3 --pairs 20 --draws 4 --out page.html",
        "measure mynet.py:make --draws 0 --pairs-out pairs.csv",
    ),
    "kernel": ("kernel dense100-relu*3 --data digits --limit 100 --out kernel.npy",),
    "mean-width": ("mean-width --data digits", "mean-width dense100-relu*2 --data digits --limit 200"),
    "flatness": ("flatness --data photos --kernel-size 5", "flatness --data photos --outliers"),
    "separation": ("separation dense100-relu-dense10 --data digits --anchors 300 --out separation.html",),
    "plan": ("plan width --eps 0.1 --delta 0.05 --depth 10", "plan check bits --pairs 100 --trials 200"),
    "plan width": ("plan width --eps 0.1 --delta 0.05 --depth 10 --samples 50000",),
    "plan depth": ("plan depth --eps 0.2 --delta 0.05 --width 4000",),
    "plan subspace": ("plan subspace --dim 5 --eps 0.2 --delta 0.05",),
    "plan filters": ("plan filters --data photos --pairs 5 --eps 0.2",),
    "plan channels": ("plan channels conv3x3x32-relu*2-flatten-dense10 --data photos --pairs 5 --eps 0.1",),
    "plan bits": ("plan bits --eps 0.1 --delta 0.05 --pairs 1000 --format json",),
    "plan projection": ("plan projection --eps 0.2 --delta 0.05 --samples 1000",),
    "plan expansivity": ("plan expansivity --inputs 20 --delta 0.05 --depth 3",),
    "plan check": ("plan check bits --pairs 100 --trials 200",),
    "injectivity": ("injectivity thresholds", "injectivity decide dense40-relu --input-shape 8"),
    "injectivity thresholds": ("injectivity thresholds --format json",),
    "injectivity probability": ("injectivity probability --outputs 30 --inputs 10",),
    "injectivity decide": ("injectivity decide dense40-relu --input-shape 8 --proof proof.json",),
    "injectivity verify": ("injectivity verify proof.json",),
    "hash": ("hash fit digits.hash --data digits --bits 64", "hash encode digits.hash digits.npz --data digits"),
    "hash fit": ("hash fit digits.hash --data digits --bits 64", "hash fit itq.hash --method itq --data digits"),
    "hash encode": ("hash encode digits.hash digits.npz --data digits",),
    "search": ("search build digits.npz digits.index", "search query digits.index digits.npz --k 5 --format csv"),
    "search build": ("search build digits.npz digits.index --kind flat",),
    "search query": ("search query digits.index digits.npz --k 5 --format csv",),
    "search recall": ("search recall digits.index --vectors digits.npy --rerank 50",),
    "search add": ("search add digits.index digits.npz",),
    "search remove": ("search remove digits.index 3 17",),
    "search radius": ("search radius digits.index digits.npz --radius 2 --format csv",),
    "search evaluate": ("search evaluate digits.npz digits.npz --exclude-self",),
    "invert": ("invert conv3x3x32-relu-maxpool2 --layer relu1 --size 32 --iterations 20 --out page.html",),
    "discriminate": ("discriminate --data digits --limit 300 --ratios 2,8 --reconstruct 1 --epochs 0",),
    "reproduce": (
        "reproduce --list",
        "reproduce talk-layer-theorem --out gallery",
        "reproduce talk-layer-theorem --figure theorem.pdf",
    ),
    "theorem": ("theorem cnn 3", 'theorem "sign embedding"', "theorem norms lemma 2 --format json"),
    "sweep": ("sweep grid.toml --out results --workers 2",),
    "coordinates": (
        "coordinates mytransformer.py:make --widths 64,128,256,512",
        "coordinates config.json --widths 1,2,4,8 --tokens 128",
    ),
    "completion": ("completion bash",),
    "mcp": ("mcp",),
}
_LAST = "--debug, anywhere, shows the traceback of an error."


_TITLES = {title: Group(title, sort_key=position) for position, title in enumerate([*_GROUPS, "More"])}


def command_group(name: str) -> Group:
    """Return the group of a command in `initscope --help`."""
    return _TITLES[next((title for title, names in _GROUPS.items() if name in names), "More")]


def examples(name: str = "") -> str:
    """Return the last lines of a command's help; a name without examples gets those of its parent command."""
    while name and name not in EXAMPLES:
        name = name.rpartition(" ")[0]
    lines = [f"  initscope {line}" for line in EXAMPLES.get(name, ("demo", "inspect mynet.py:make --data photos"))]
    return "\n".join(["Examples:", *lines, "", _LAST])
