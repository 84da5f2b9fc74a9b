"""The tools for coding assistants, called in process by the client of the official SDK."""

import json

import pytest

import initscope

anyio = pytest.importorskip("anyio")
mcp = pytest.importorskip("mcp")
# What the SDK warns of is not ours.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def call():
    """Call a tool; returns (whether it failed, its text)."""

    def call(name, **arguments):
        async def run():
            async with mcp.Client(initscope.integrations.mcp_server()) as client:
                answer = await client.call_tool(name, arguments)
                return bool(answer.is_error), "".join(part.text for part in answer.content)

        return anyio.run(run)

    return call


def test_the_tools_are_listed_with_their_hints():
    async def run():
        async with mcp.Client(initscope.integrations.mcp_server()) as client:
            return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in anyio.run(run)}
    assert set(tools) == {"inspect_model", "compare_models", "data_overview", "plan", "theorem"}
    assert tools["theorem"].annotations.read_only_hint
    assert not tools["inspect_model"].annotations.read_only_hint  # it runs the code of the model
    assert "model" in tools["inspect_model"].input_schema["required"]


def test_inspect_runs_the_code_that_is_named(call, tmp_path, capfd):
    code = "import torch\ndef make():\n    print('hello')\n    return torch.nn.Sequential(torch.nn.Flatten(), "
    (tmp_path / "mine.py").write_text(code + "torch.nn.Linear(64, 10))\n", encoding="utf-8")
    failed, text = call("inspect_model", model=f"{tmp_path / 'mine.py'}:make", data="digits", pairs=8)
    assert not failed, text
    assert text.startswith("## initscope")
    output, messages = capfd.readouterr()
    assert output == ""  # standard output belongs to the protocol
    assert "hello" in messages


def test_data_plan_and_theorem(call):
    assert call("data_overview", data="digits", limit=50)[1].startswith("## ")
    answer = json.loads(call("plan", planner="width", arguments={"eps": 0.1, "delta": 0.05, "depth": 3})[1])
    assert answer == initscope.results.plain(initscope.plan.width(eps=0.1, delta=0.05, depth=3))
    assert "theorem 3" in json.loads(call("theorem", query="cnn 3")[1])["statement"]["title"]


def test_compare(call):
    models = {"one": "dense4-relu-dense10", "two": "dense4-tanh-dense10"}
    failed, text = call("compare_models", models=models, data="digits:limit=60", pairs=8)
    assert not failed, text
    assert [row["model"] for row in json.loads(text)["models"]] == ["one", "two"]


def test_bad_input_is_a_message(call):
    for name, arguments, message in (
        ("data_overview", {"data": "nowhere.csv"}, "nowhere.csv is not a file"),
        ("inspect_model", {"model": "dense-5", "data": "digits"}, "has no size"),
        ("plan", {"planner": "with", "arguments": {}}, "did you mean width?"),
        ("plan", {"planner": "width", "arguments": {"epsilon": 1}}, "epsilon"),
    ):
        failed, text = call(name, **arguments)
        assert failed
        assert message in text
