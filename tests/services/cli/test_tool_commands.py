"""`turnlog tools check`: starts the tool servers of a blueprint and says what is wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import tests.support.servers.mcp_stdio_server
from tests.agent_programs.agent_harness import build_loop_blueprint
from tests.services.cli.conftest import RunCommand
from turnlog.projections.blueprint.loading.blueprint_source import BLUEPRINT_FILE
from turnlog.projections.blueprint.schema.blueprint_model import encode_blueprint
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders

SMALL = [sys.executable, "-I", "-S", str(Path(tests.support.servers.mcp_stdio_server.__file__))]


def write_blueprint(folder: Path, **servers: dict[str, Any]) -> Path:
    return write_loop(folder, tools={"servers": servers})


def write_loop(folder: Path, **changes: Any) -> Path:  # noqa: ANN401 - pieces of a blueprint
    kind = build_loop_blueprint(**changes)
    file = folder / kind.blueprint / BLUEPRINT_FILE
    file.parent.mkdir(parents=True)
    file.write_bytes(encode_blueprint(kind))
    return file.parent


def test_tools_check_lists_tools_with_their_repeat_policy(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    options = {"except": ["hang"], "idempotent": ["variable"]}
    folder = write_blueprint(tmp_path, small={"command": SMALL, **options})
    ran = turnlog("tools", "check", folder, "-o", "json")
    assert ran.code == 0
    (server,) = ran.json
    found = {tool["name"]: tool for tool in server["tools"]}
    assert {name: tool["repeat"] for name, tool in found.items()} == {
        "small_who": "read-only",
        "small_listed": "idempotent",
        "small_hang": "once",
        "small_die": "once",
        "small_variable": "declared",
        "small_lament": "once",
        "small_mourn": "once",
    }
    left_out = {name: tool["left_out"] for name, tool in found.items() if tool["left_out"]}
    assert left_out == {"small_hang": "among `except`"}
    assert all(10 < tool["tokens"] < 60 for tool in found.values())
    shown = turnlog("tools", "check", folder)
    assert "✓ small  6 tools, about" in shown.out
    assert "left out: among `except`" in shown.out


def test_tools_check_reports_tools_that_exceed_the_call_budget(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    plain = build_loop_blueprint().model_dump(mode="json", by_alias=True, exclude_unset=True)
    ladder = [{"condense_results": {"layer": "tool_results", "to": "digest"}}]
    folder = write_loop(
        tmp_path,
        calls={"converse": {**plain["calls"]["converse"], "budget": "window"}},
        budget={"window": {"tokens": 29, "counter": {"chars_per_token": 4}, "ladder": ladder}},
        tools={"servers": {"small": {"command": SMALL}}},
    )
    (server,) = turnlog("tools", "check", folder, "-o", "json").json
    for tool in server["tools"]:
        reason = f"its description has {tool['tokens']} tokens, and a call has room for 29"
        assert tool["left_out"] == (reason if tool["tokens"] > 29 else None)
    assert {tool["left_out"] is None for tool in server["tools"]} == {True, False}


def test_tools_check_reports_the_fault_of_each_server(turnlog: RunCommand, tmp_path: Path) -> None:
    folder = write_blueprint(
        tmp_path,
        gone={"command": ["no-such-program"]},
        broken={"command": [*SMALL, "No module named 'stock'"]},
        small={"command": SMALL, "only": ["who", "whom"]},
    )
    ran = turnlog("tools", "check", folder)
    assert ran.code == 1
    shown = " ".join(ran.out.split())
    assert "✗ tools_not_started gone: there is no program 'no-such-program'; install it" in shown
    assert "broken: it ended before it said what it is; correct what it says" in shown
    assert "No module named 'stock'" in shown
    assert "it has no `whom`, which an option names" in shown


def test_tools_check_lists_endpoints_and_reports_missing_variables(
    turnlog: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = {"url": "http://127.0.0.1:1/", "description": "Order a thing.", "read_only": True}
    order |= {"headers_from": {"Authorization": "SHOP_TOKEN"}}
    folder = write_blueprint(tmp_path, shop={"endpoints": {"order": order}})
    ran = turnlog("tools", "check", folder, "-o", "json")
    assert (ran.code, ran.json[0]["code"]) == (1, "tools_not_started")
    monkeypatch.setenv("SHOP_TOKEN", "t")
    ran = turnlog("tools", "check", folder, "-o", "json")
    assert ran.code == 0
    assert [(tool["name"], tool["repeat"]) for tool in ran.json[0]["tools"]] == [
        ("shop_order", "read-only")
    ]


def test_uncallable_tools_are_faults_of_the_blueprint(turnlog: RunCommand, tmp_path: Path) -> None:
    order = {"url": "http://127.0.0.1:1/", "description": "Order.", "parameters": {"type": "array"}}
    servers: dict[str, Any] = {"shop": {"endpoints": {"order": order}}}
    folder = write_blueprint(tmp_path, **servers)
    ran = turnlog("blueprint", "check", folder, "-o", "json")
    assert ran.code == 1
    faults = {each["path"]: each["what"] for each in ran.json[str(folder)]}
    path = "tools.servers.shop.endpoints.order.parameters"
    assert faults[path] == "its arguments are not of the type `object`"
    tried = turnlog("tools", "check", folder, "-o", "json")
    assert (tried.code, tried.json) == (1, ran.json)
    assert f"✗ agent/blueprint.yaml:1 {path}" in turnlog("tools", "check", folder).out
    write_blueprint(tmp_path / "other", own={"functions": ["nowhere"]})
    ran = turnlog("blueprint", "check", tmp_path / "other/agent", "-o", "json")
    assert [(each["path"], each["what"]) for each in ran.json[str(tmp_path / "other/agent")]] == [
        ("tools.servers.own.functions.0", "no package registers a tool 'nowhere'")
    ]
    (fault,) = ran.json[str(tmp_path / "other/agent")]
    assert "install its package, with the entry point group `turnlog.tools`" in fault["fix"]


def test_tools_check_accepts_shipped_blueprint_names_and_refuses_unknown_ones(
    turnlog: RunCommand,
) -> None:
    assert turnlog("tools", "check", "trickster").out == "trickster has no tools\n"
    assert turnlog("tools", "check", "no-such-blueprint").code == 3


FOREIGN_SERVERS: dict[str, dict[str, Any]] = {
    "awslabs.aws-documentation-mcp-server": {},
    "Sequential Thinking": {"type": "stdio"},
    "@upstash/context7": {"transport": "STDIO", "disabledTools": ["die"], "timeout": 60_000},
    "Wetter (München)": {"autoApprove": ["who"], "approve": ["all"], "description": "The weather."},
    "2captcha": {"alwaysAllow": [], "enabled": True, "icon": "2.png", "cwd": "here"},
    "天気": {"fromGalleryId": "w", "env": None},
    "gone": {"disabled": True},
}
"""Servers as other programs write them: names, words and spellings."""


def test_tools_check_reads_servers_as_other_programs_write_them(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    program = {"command": SMALL[0], "args": SMALL[1:]}
    file = tmp_path / "mcp.json"
    (tmp_path / "here").mkdir()
    servers = {name: program | more for name, more in FOREIGN_SERVERS.items()}
    file.write_text(json.dumps({"mcpServers": servers}))
    ran = turnlog("tools", "check", "uderia", "--tools", file, "-o", "json")
    assert ran.code == 0
    assert {each["server"]: each["system_name"] for each in ran.json} == {
        "awslabs-aws-documentation-mcp-server": "awslabs.aws-documentation-mcp-server",
        "sequential-thinking": "Sequential Thinking",
        "upstash-context7": "@upstash/context7",
        "wetter-munchen": "Wetter (München)",
        "server-2captcha": "2captcha",
        "server-bc79d84d": "天気",
    }
    offered = {each["server"]: each["tools"] for each in ran.json}
    left_out = [tool["name"] for tool in offered["upstash-context7"] if tool["left_out"]]
    assert left_out == ["upstash-context7_die"]
    words = "`2captcha.icon`, `天気.fromGalleryId`"
    assert f"these words are ignored: {words}" in " ".join(ran.err.split())
    assert ran.err.count("!") == 1
    shown = turnlog("tools", "check", "uderia", "--tools", file)
    assert "✓ sequential-thinking (Sequential Thinking)  7 tools" in shown.out


PROGRAM: dict[str, Any] = {"command": SMALL[0], "args": SMALL[1:]}
INPUT = {"EXTRA_TOOLS": "${input:extra-tools}"}

EDITOR_FILES: dict[str, dict[str, Any]] = {
    "servers": {
        "inputs": [{"type": "promptString", "id": "extra-tools", "password": True}],
        "servers": {"small": {"type": "stdio", **PROGRAM, "env": INPUT}},
    },
    "mcp.servers": {
        "editor.fontSize": 12,
        "mcp": {"inputs": [], "servers": {"small": {**PROGRAM, "env": INPUT}}},
    },
    "context_servers": {
        "context_servers": {
            "small": {"command": {"path": SMALL[0], "args": SMALL[1:], "env": INPUT}}
        }
    },
    "mcp": {"mcp": {"small": {"type": "local", "command": SMALL, "environment": INPUT}}},
}
"""Files of editors, by the words that their servers are below."""


@pytest.mark.parametrize("words", EDITOR_FILES)
def test_tools_check_lists_the_servers_of_an_editor_with_its_inputs(
    turnlog: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    file = tmp_path / ".vscode" / "mcp.json"
    file.parent.mkdir()
    file.write_text(f"// Of the team.\n{json.dumps(EDITOR_FILES[words], indent=2)[:-2]},\n}}\n")
    check = ("tools", "check", "uderia", "--tools", file)
    without = turnlog(*check, "-o", "json")
    assert without.code == 1
    (fault,) = without.json[str(file)]
    assert fault["what"] == "the variable TURNLOG_INPUT_EXTRA_TOOLS is not set"
    monkeypatch.setenv("TURNLOG_INPUT_EXTRA_TOOLS", '{"query": {"type": "object"}}')
    ran = turnlog(*check, "-o", "json")
    assert ran.code == 0
    (server,) = ran.json
    assert (server["server"], len(server["tools"])) == ("small", 8)
    assert "small_query" in [tool["name"] for tool in server["tools"]]
    assert ran.err == ""


def test_blueprint_check_warns_of_ignored_words_of_the_tools_file(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"a": {"command": SMALL[0], "trust": True}}}))
    folder = BlueprintFolders().find_folder("uderia")
    ran = turnlog("blueprint", "check", folder, "--tools", file, "-o", "json")
    assert ran.code == 0
    (fault,) = ran.json[str(file)]
    assert (fault["severity"], fault["what"]) == ("warning", "these words are ignored: `a.trust`")
