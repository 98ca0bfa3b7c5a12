"""Tool servers in files of their own, in a folder that a blueprint names."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.projections.blueprint.loading.server_sources import ConfiguredServers, ServerSources
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, encode_blueprint
from turnlog.projections.blueprint.schema.tool_specs import (
    ConfiguredServerSpec,
    LocalServerSpec,
    RemoteServerSpec,
    ServerOptions,
)
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

    return load_blueprint_source(TEXT, "agent/blueprint.yaml", ServerSources(beside)).blueprint


def test_folder_is_expanded_to_the_servers_in_it() -> None:
    blueprint = read_with_files(time=TIME, all="url: http://127.0.0.1:1/mcp")
    assert blueprint.tools
    assert blueprint.tools.servers == {
        "time": LocalServerSpec(command=("mcp-server-time",), idempotent=("get_current_time",)),
        "all": RemoteServerSpec(url="http://127.0.0.1:1/mcp"),
    }
    assert b'"folder"' not in encode_blueprint(blueprint)


def test_fault_of_a_server_file_has_its_file_and_line() -> None:
    with pytest.raises(FaultyBlueprint) as raised:
        read_with_files(time=TIME.replace("idempotent", "idempotnt"))
    (fault,) = raised.value.faults
    assert (fault.file, fault.line) == ("agent/mcp/time.yaml", 2)
    assert fault.fix == "write `idempotent`"


def test_folder_without_servers_is_a_fault() -> None:
    with pytest.raises(FaultyBlueprint, match="there is no server in `mcp/`"):
        read_with_files()


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        (("mcp/time.yml",), "agent/mcp/time.yml:1: only `.yaml` is read as a server; call it `mcp"),
        (("mcp/a/time.yaml", "mcp/time.yaml"), "mcp/time.yaml:1: there is a server `time` alread"),
    ],
)
def test_file_that_would_be_ignored_is_a_fault(files: tuple[str, ...], fault: str) -> None:
    with pytest.raises(FaultyBlueprint) as raised:
        load_blueprint_source(
            TEXT,
            "agent/blueprint.yaml",
            ServerSources(lambda _: [(file, TIME) for file in files]),
        )
    assert fault in str(raised.value)


CONFIGURED = {
    "shop": ServerOptions(only=("look", "pay"), idempotent=("look",)),
    "post": ServerOptions.model_validate({"except": ("burn",)}),
}


def read_with_configured(servers: str, configured: ConfiguredServers | None) -> Blueprint:
    """Read the blueprint with other servers, where the operator configured these."""
    sources = ServerSources(lambda _: [("mcp/time.yaml", TIME)], configured)
    text = TEXT.replace("{folder: mcp/}", servers)
    return load_blueprint_source(text, "agent/blueprint.yaml", sources).blueprint


def find_faults(servers: str, configured: ConfiguredServers | None) -> list[str]:
    with pytest.raises(FaultyBlueprint) as raised:
        read_with_configured(servers, configured)
    return [str(fault) for fault in raised.value.faults]


@pytest.mark.parametrize("servers", ["{configured: all, folder: mcp/}", "{configured: all}"])
def test_configured_servers_take_precedence_over_those_of_a_folder(servers: str) -> None:
    blueprint = read_with_configured(servers, CONFIGURED)
    assert blueprint.tools
    # What nobody named is not required
    shop = {
        "configured": "shop",
        "required": False,
        "only": ("look", "pay"),
        "idempotent": ("look",),
    }
    post = {"configured": "post", "required": False, "except": ("burn",)}
    assert blueprint.tools.servers == {
        "shop": ConfiguredServerSpec.model_validate(shop),
        "post": ConfiguredServerSpec.model_validate(post),
    }


def test_folder_is_used_if_there_is_no_tools_file() -> None:
    blueprint = read_with_configured("{configured: all, folder: mcp/}", None)
    assert blueprint.tools
    assert list(blueprint.tools.servers) == ["time"]


def test_blueprint_that_names_only_a_folder_gets_no_configured_servers() -> None:
    blueprint = read_with_configured("{folder: mcp/}", CONFIGURED)
    assert blueprint.tools
    assert list(blueprint.tools.servers) == ["time"]


def test_blueprint_can_restrict_configured_tools_but_not_extend_them() -> None:
    entry = "{configured: shop, only: [look, burn], except: [sell], idempotent: [pay]}"
    blueprint = read_with_configured(f"{{mine: {entry}}}", CONFIGURED)
    assert blueprint.tools
    server = blueprint.tools.servers["mine"]
    assert (server.only, server.except_) == (("look",), ("sell",))
    assert server.idempotent == ("pay", "look")


FIX = "give a tools file: `--tools FILE` or TURNLOG_TOOLS"


@pytest.mark.parametrize(
    ("servers", "configured", "fault"),
    [
        (
            "{configured: all}",
            None,
            f"tools.servers.configured: no tool servers are configured; {FIX}",
        ),
        (
            "{mine: {configured: shop}}",
            None,
            f"tools.servers.mine.configured: no tool server `shop` is configured; {FIX}",
        ),
        (
            "{mine: {configured: shp}}",
            CONFIGURED,
            "tools.servers.mine.configured: no tool server `shp` is configured; write `shop`",
        ),
    ],
)
def test_reference_to_an_unconfigured_server_is_a_fault(
    servers: str, configured: ConfiguredServers | None, fault: str
) -> None:
    assert find_faults(servers, configured)[0] == f"agent/blueprint.yaml:7: {fault}"
