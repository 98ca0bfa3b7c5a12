"""Tools files of editors and other programs: their forms, their references, what is secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnlog.projections.blueprint.schema.tool_specs import ConfiguredServerSpec
from turnlog.services.extensions.mcp_servers_file import FaultyToolsFile, ToolsFile, load_tools_file
from turnlog.services.worker.tools.mcp_server_settings import (
    ServerAddress,
    ServerProgram,
    check_endpoints,
    resolve_endpoint,
)

EDITOR_FILE = """{
  // What the editor asks for when a server starts.
  "inputs": [
    {"type": "promptString", "id": "github-token", "description": "Token", "password": true},
    {"type": "pickString", "id": "level", "options": ["info", "debug"], "default": "info"},
  ],
  "servers": {
    "github": {
      "type": "http",
      "url": "https://api.example/mcp/", /* not "//example" */
      "headers": {"Authorization": "Bearer ${input:github-token}"},
    },
    "playwright": {
      "command": "python",
      "args": ["-m", "playwright", "--out", "${workspaceFolder}/out", "--level", "${input:level}"],
      "env": {"API_KEY": "${env:PLAYWRIGHT_KEY}", "PORT": 8931, "HEADLESS": true, "PROXY": null},
      "cwd": "${workspaceFolder}",
      "dev": {"watch": "src/**"},
    },
  },
}
"""


def write_file(file: Path, text: str) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


@pytest.fixture
def editor_file(tmp_path: Path) -> Path:
    return write_file(tmp_path / ".vscode" / "mcp.json", EDITOR_FILE)


def resolve(tools: ToolsFile, name: str, **environ: str) -> ServerProgram | ServerAddress:
    return resolve_endpoint(name, ConfiguredServerSpec(configured=name), tools, environ)


def list_faults(tools: ToolsFile, **environ: str) -> list[str]:
    with pytest.raises(FaultyToolsFile) as raised:
        check_endpoints(tools, environ)
    return [str(each).partition("mcp.json:")[2] for each in raised.value.faults]


def test_file_of_an_editor_is_read_with_its_inputs_from_the_environment(editor_file: Path) -> None:
    tools = load_tools_file(editor_file)
    assert resolve(tools, "github", TURNLOG_INPUT_GITHUB_TOKEN="t-1") == ServerAddress(
        "https://api.example/mcp/", (("Authorization", "Bearer t-1"),)
    )
    folder = str(editor_file.parents[1])
    program = resolve(tools, "playwright", PLAYWRIGHT_KEY="k-1", TURNLOG_INPUT_LEVEL="debug")
    assert program == ServerProgram(
        ("python", "-m", "playwright", "--out", f"{folder}/out", "--level", "debug"),
        (("API_KEY", "k-1"), ("PORT", "8931"), ("HEADLESS", "true")),
        folder,
    )
    assert "k-1" not in repr(program)
    assert [each.what for each in tools.warnings] == ["these words are ignored: `playwright.dev`"]


def test_input_with_a_default_needs_no_answer_and_another_is_refused(editor_file: Path) -> None:
    tools = load_tools_file(editor_file)
    program = resolve(tools, "playwright")
    assert isinstance(program, ServerProgram)
    assert program.command[-1] == "info"
    (fault,) = list_faults(tools, PATH="/usr/bin:/bin", PLAYWRIGHT_KEY="k")
    assert fault == (
        "11: servers.github.headers.Authorization: the variable TURNLOG_INPUT_GITHUB_TOKEN is not "
        "set; set it for the worker: it answers the input, as a person does in an editor"
    )


OTHER_FORMS = {
    "settings of an editor": (
        '{"editor.fontSize": 12, "mcp": {"inputs": [{"id": "key", "default": "k"}], '
        '"servers": {"shop": {"command": "shop", "env": {"KEY": "${input:key}"}}}}}'
    ),
    "a path and arguments": (
        '{"context_servers": {"shop": {"source": "custom", '
        '"command": {"path": "shop", "args": [], "env": {"KEY": "k"}}}}}'
    ),
    "a list as the program": (
        '{"mcp": {"shop": {"type": "local", "command": ["shop"], "enabled": true, '
        '"environment": {"KEY": "k"}}}}'
    ),
    "numbers": '{"mcpServers": {"shop": {"command": "shop", "args": [], "env": {"KEY": "k"}}}}',
    "YAML": "servers:\n  shop: {command: shop, env: {KEY: k}}\n",
    "comments": '// of the team\n{"servers": {"shop": {"command": "shop", "env": {"KEY": "k",}}}}',
}
"""The same server as several programs write it."""


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_same_server_is_read_from_the_form_of_each_program(tmp_path: Path, form: str) -> None:
    tools = load_tools_file(write_file(tmp_path / "mcp.json", OTHER_FORMS[form]))
    assert resolve(tools, "shop") == ServerProgram(("shop",), (("KEY", "k"),))


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            '{"serverUrl": "https://a/mcp", "headers": {"X-Team": 7}, "disabledTools": ["buy"]}',
            ServerAddress("https://a/mcp", (("X-Team", "7"),)),
        ),
        (
            '{"command": "run", "args": ["--port", 8080, "--fast", true], "env": {"RATE": 0.5}}',
            ServerProgram(("run", "--port", "8080", "--fast", "true"), (("RATE", "0.5"),)),
        ),
        (
            '{"command": "${userHome}${/}run", "args": ["${workspaceFolderBasename}"]}',
            ServerProgram((f"{Path.home()}/run", "work")),
        ),
    ],
)
def test_words_and_values_of_editors_are_understood(
    tmp_path: Path, entry: str, expected: ServerProgram | ServerAddress
) -> None:
    file = write_file(tmp_path / "work" / "mcp.json", f'{{"mcpServers": {{"a": {entry}}}}}')
    tools = load_tools_file(file)
    assert resolve(tools, "a") == expected
    assert tools.warnings == ()


def test_disabled_server_of_an_editor_is_left_out_with_its_inputs(tmp_path: Path) -> None:
    text = '{"servers": {"a": {"url": "https://a/${input:x}", "disabled": true}, "b": {"url": "https://b"}}}'
    tools = load_tools_file(write_file(tmp_path / "mcp.json", text))
    check_endpoints(tools, {})
    assert [*tools.servers] == ["b"]


@pytest.mark.parametrize("text", ["{}", '{"inputs": []}', '{"servers": [{"name": "a"}]}'])
def test_file_without_servers_is_refused_with_a_fix(tmp_path: Path, text: str) -> None:
    with pytest.raises(FaultyToolsFile) as raised:
        load_tools_file(write_file(tmp_path / "mcp.json", text))
    (fault,) = raised.value.faults
    assert fault.fix


def test_fault_in_a_file_of_an_editor_names_its_own_words(tmp_path: Path) -> None:
    text = '{"mcp": {"servers": {\n"a": {"comand": "x"}}}}'
    with pytest.raises(FaultyToolsFile, match=r"mcp\.json:2: mcp\.servers\.a: a server needs"):
        load_tools_file(write_file(tmp_path / "mcp.json", text))
