"""The tools file: what it accepts, what it refuses and with which fix, and what a machine lacks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from turnlog.projections.blueprint.schema.tool_specs import ConfiguredServerSpec
from turnlog.services.extensions.mcp_servers_file import FaultyToolsFile, ToolsFile, load_tools_file
from turnlog.services.extensions.mcp_servers_file_words import derive_server_name
from turnlog.services.worker.tools.mcp_server_settings import (
    ServerAddress,
    ServerProgram,
    find_endpoint_faults,
    resolve_endpoint,
)

ISSUES = {
    "command": "issue-server",
    "args": ["--host", "${ISSUE_HOST:-issues.example}"],
    "env": {"ISSUE_TOKEN": "${TRACKER_TOKEN}", "LEVEL": "debug"},
}
SHOP = {"url": "https://${HOST}/mcp?key=${KEY}", "headers": {"Authorization": "Bearer ${KEY}"}}


def write_tools_file(folder: Path, servers: object, **more: object) -> Path:
    """Write a tools file as other programs do, indented by tabs."""
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers, **more}, indent="\t"))
    return file


def read_faults(folder: Path, servers: object) -> list[str]:
    """Return the faults of a file, without its path."""
    with pytest.raises(FaultyToolsFile) as raised:
        load_tools_file(write_tools_file(folder, servers))
    return [str(each).removeprefix(f"{folder}/") for each in raised.value.faults]


def resolve(tools: ToolsFile, name: str, **environ: str) -> ServerProgram | ServerAddress:
    spec = ConfiguredServerSpec(configured=name)
    return resolve_endpoint(name, spec, tools, environ)


def test_program_server_gets_its_arguments_and_environment_variables(tmp_path: Path) -> None:
    tools = load_tools_file(write_tools_file(tmp_path, {"issues": ISSUES}, theme="dark"))
    program = resolve(tools, "issues", TRACKER_TOKEN="t-1", OTHER="o")
    assert program == ServerProgram(
        ("issue-server", "--host", "issues.example"), (("ISSUE_TOKEN", "t-1"), ("LEVEL", "debug"))
    )
    assert "t-1" not in repr(program)
    assert isinstance(program, ServerProgram)
    assert program.folder is None
    assert program.secrets == ("t-1", "debug", "issues.example")
    other = resolve(tools, "issues", TRACKER_TOKEN="t-1", ISSUE_HOST="here")
    assert isinstance(other, ServerProgram)
    assert other.command[-1] == "here"


def test_http_server_gets_its_headers(tmp_path: Path) -> None:
    tools = load_tools_file(write_tools_file(tmp_path, {"shop": SHOP | {"type": "http"}}))
    assert resolve(tools, "shop", HOST="shop.example", KEY="k-1") == ServerAddress(
        "https://shop.example/mcp?key=k-1", (("Authorization", "Bearer k-1"),)
    )


def test_yaml_tools_file_is_read_and_disabled_servers_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "tools.yaml"
    file.write_text(
        "mcpServers:\n  time: {command: mcp-server-time, only: [now]}\n"
        "  shop: {url: 'https://shop.example/mcp', disabled: true}\n"
    )
    servers = load_tools_file(file).servers
    assert [(name, each.only) for name, each in servers.items()] == [("time", ("now",))]


NO_SERVER = "2: mcpServers: there is no server; add one that is not disabled"

TYPE_FIX = "use one of: http, sse"

TEXT_FIX = "write text; put quotes around what looks like a number"


@pytest.mark.parametrize(
    ("servers", "fault"),
    [
        ({}, NO_SERVER),
        ({"a": {"command": "x", "disabled": True}}, NO_SERVER),
        (
            {"a": {"comand": "x"}},
            "3: mcpServers.a: a server needs one of: `command`, `url`; write `command`",
        ),
        (
            {"a": {"command": "x", "arg": ["y"]}},
            "5: mcpServers.a.arg: `arg` means nothing here; write `args`",
        ),
        (
            {"a": {"command": "x", "env": {"LEVEL": [3]}}},
            f"6: mcpServers.a.env.LEVEL: it must be a valid string; {TEXT_FIX}",
        ),
        (
            {"a": {"command": [3, "y"]}},
            f"4: mcpServers.a.command: it must be a valid string; {TEXT_FIX}",
        ),
        (
            {"a": {"url": "https://a/mcp", "headers": {"X": "${command:key}"}}},
            (
                "6: mcpServers.a.headers.X: `${command:key}` is no variable; write `${NAME}` or "
                "`${NAME:-default}`"
            ),
        ),
        (
            {"a": {"url": "https://a/mcp", "type": "ws"}},
            f"5: mcpServers.a.type: `ws` means nothing here; {TYPE_FIX}",
        ),
        (
            {"a": {"command": "x", "aprove": ["order"]}},
            "5: mcpServers.a.aprove: `aprove` means nothing here; write `approve`",
        ),
        (
            {"a": {"url": "https://a/mcp", "timeout": "1 m"}},
            ("5: mcpServers.a.timeout: it must be a valid number; write a number, without quotes"),
        ),
        (
            {"My Shop": {"command": "x"}, "my/shop": {"command": "y"}},
            (
                "6: mcpServers.my/shop: `My Shop` and `my/shop` are both called `my-shop` here; "
                "call one of them otherwise, or disable it"
            ),
        ),
    ],
)
def test_tools_file_fault_is_reported_with_field_line_and_fix(
    tmp_path: Path, servers: object, fault: str
) -> None:
    assert read_faults(tmp_path, servers) == [f"mcp.json:{fault}"]


def test_all_faults_of_a_tools_file_are_reported_together(tmp_path: Path) -> None:
    wrong: dict[str, object] = {"a": {"command": ""}, "b": {"url": "https://b/mcp", "header": {}}}
    assert len(read_faults(tmp_path, wrong)) == len(wrong)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "while parsing|expected|did not find"),
        ('{"tools": {}}', "`mcpServers` is missing; add `mcpServers:`"),
        ("[]", "it must be an object"),
    ],
)
def test_file_that_is_not_a_tools_file_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(text)
    with pytest.raises(FaultyToolsFile, match=fault):
        load_tools_file(file)


def test_unreadable_tools_file_is_refused_with_a_fix(tmp_path: Path) -> None:
    with pytest.raises(FaultyToolsFile, match="No such file or directory; name a file that can"):
        load_tools_file(tmp_path / "none.json")
    (tmp_path / "mcp.json").write_bytes(b"\xff\xfe")
    with pytest.raises(FaultyToolsFile, match="byte 0 is not UTF-8; save it as UTF-8"):
        load_tools_file(tmp_path / "mcp.json")


def test_missing_variables_and_programs_are_reported_with_field_and_fix(tmp_path: Path) -> None:
    servers: dict[str, Any] = {
        "issues": ISSUES | {"command": sys.executable},
        "gone": {"command": "no-such-program"},
        "odd": {"url": "${HOST}"},
    }
    tools = load_tools_file(write_tools_file(tmp_path, servers))
    found = [str(each) for each in find_endpoint_faults(tools, {"HOST": "shop.example"})]
    assert [each.removeprefix(f"{tmp_path}/mcp.json:") for each in found] == [
        (
            "10: mcpServers.issues.env.ISSUE_TOKEN: the variable TRACKER_TOKEN is not set; "
            "set it for the worker, or write `${TRACKER_TOKEN:-default}`"
        ),
        (
            "15: mcpServers.gone.command: there is no program `no-such-program`; "
            "install it, or write its path"
        ),
        "18: mcpServers.odd.url: it is no address; write `https://host/path`",
    ]
    environ = {"TRACKER_TOKEN": "t", "HOST": "http://shop.example/mcp"}
    left = [each.path for each in find_endpoint_faults(tools, environ)]
    assert left == ["mcpServers.gone.command"]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [({"timeout": 60}, 60), ({"timeout": 120_000}, 120), ({"timeout": 2.5}, 2.5), ({}, None)],
)
def test_timeout_is_read_in_seconds_or_milliseconds(
    tmp_path: Path, written: dict[str, object], seconds: float | None
) -> None:
    tools = load_tools_file(write_tools_file(tmp_path, {"a": {"command": "x", **written}}))
    pinned = ConfiguredServerSpec(configured="a").add_options(tools.servers["a"])
    assert pinned.seconds == tools.servers["a"].seconds == seconds


@pytest.mark.parametrize(
    ("approve", "written", "needed"),
    [
        ([], {"autoApprove": ["look"]}, []),
        ([], {"approve": ["all"], "autoApprove": ["look"]}, ["pay"]),
        ([], {"approve": ["all"], "alwaysAllow": ["look", "pay"]}, []),
        ([], {"approve": ["look"], "autoApprove": ["look"]}, ["look"]),
        (["all"], {"approve": ["all"], "autoApprove": ["look"]}, ["look", "pay"]),
        (["look"], {"alwaysAllow": ["look"]}, ["look"]),
    ],
)
def test_automatically_approved_tools_need_no_approval_unless_a_blueprint_asks_for_it(
    tmp_path: Path, approve: list[str], written: dict[str, object], needed: list[str]
) -> None:
    tools = load_tools_file(write_tools_file(tmp_path, {"a": {"command": "x", **written}}))
    own = ConfiguredServerSpec(configured="a", approve=tuple(approve))
    pinned = own.add_options(tools.servers["a"])
    assert [tool for tool in ("look", "pay") if pinned.needs_approval(tool)] == needed


def test_program_is_started_in_the_folder_of_its_entry(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    entry = {"command": "./run", "args": ["data"], "cwd": "${SHOP:-shop}"}
    tools = load_tools_file(write_tools_file(tmp_path, {"a": entry}))
    program = resolve(tools, "a")
    assert isinstance(program, ServerProgram)
    assert program.folder == str(tmp_path / "shop")
    assert program.command == (str(tmp_path / "shop" / "run"), "data")
    (fault,) = find_endpoint_faults(tools, {"SHOP": "none"})
    assert (fault.path, fault.what) == (
        "mcpServers.a.cwd",
        f"there is no folder `{tmp_path / 'none'}`",
    )


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("time", "time"),
        ("my_shop-2", "my_shop-2"),
        ("My Shop", "my-shop"),
        ("a.b/c", "a-b-c"),
        ("io.github.User/Server", "io-github-user-server"),
        ("--x--", "x"),
        ("9lives", "server-9lives"),
        ("Ünïcode", "unicode"),
    ],
)
def test_server_name_of_another_program_becomes_a_name_of_ours(written: str, name: str) -> None:
    assert derive_server_name(written) == name


def test_long_server_names_stay_distinct() -> None:
    first, second = (derive_server_name(f"{'a' * 80}.{end}") for end in "xy")
    assert first != second
    assert {len(first), len(second)} == {64}
