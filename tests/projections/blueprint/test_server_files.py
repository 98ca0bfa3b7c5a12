"""Tool servers in files of their own, in a folder that a blueprint names."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, encode_blueprint
from turnlog.projections.blueprint.schema.tool_specs import LocalServerSpec, RemoteServerSpec
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint

TEXT = """
blueprint: agent
version: 1
layers: {rules: {text: "Answer."}}
calls: {reply: {messages: [{system: [rules]}, {user: [input]}]}}
tools:
  servers: {folder: mcp/}
profiles: {chat: {default: true, call: reply}}
"""
TIME = "command: [mcp-server-time]\nidempotent: [get_current_time]"


def read_with_files(**files: str) -> Blueprint:
    """Read the blueprint with these files in its folder."""

    def beside(folder: str) -> Iterable[tuple[str, str]]:
        assert folder == "mcp/"
        return [(f"mcp/{name}.yaml", text) for name, text in files.items()]

    return load_blueprint_source(TEXT, "agent/blueprint.yaml", beside).blueprint


def test_a_folder_stands_for_the_servers_in_it() -> None:
    blueprint = read_with_files(time=TIME, all="url: http://127.0.0.1:1/mcp")
    assert blueprint.tools
    assert blueprint.tools.servers == {
        "time": LocalServerSpec(command=("mcp-server-time",), idempotent=("get_current_time",)),
        "all": RemoteServerSpec(url="http://127.0.0.1:1/mcp"),
    }
    assert b'"folder"' not in encode_blueprint(blueprint)


def test_what_is_wrong_with_a_server_is_told_with_its_file_and_line() -> None:
    with pytest.raises(FaultyBlueprint) as raised:
        read_with_files(time=TIME.replace("idempotent", "idempotnt"))
    (fault,) = raised.value.faults
    assert (fault.file, fault.line) == ("agent/mcp/time.yaml", 2)
    assert fault.fix == "write `idempotent`"


def test_a_folder_without_servers_is_told_of() -> None:
    with pytest.raises(FaultyBlueprint, match="there is no server in `mcp/`"):
        read_with_files()


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        (("mcp/time.yml",), "agent/mcp/time.yml:1: only `.yaml` is read as a server; call it `mcp"),
        (("mcp/a/time.yaml", "mcp/time.yaml"), "mcp/time.yaml:1: there is a server `time` alread"),
    ],
)
def test_a_file_that_would_be_passed_over_is_told_of(files: tuple[str, ...], fault: str) -> None:
    with pytest.raises(FaultyBlueprint) as raised:
        load_blueprint_source(
            TEXT, "agent/blueprint.yaml", lambda _: [(file, TIME) for file in files]
        )
    assert fault in str(raised.value)
