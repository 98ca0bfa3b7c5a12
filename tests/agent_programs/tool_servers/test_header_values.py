"""Headers from variables of the worker: a value that none can have is found before a request."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.agent_programs.tool_servers.test_function_and_endpoint_tools import build_endpoint
from turnlog.projections.blueprint.schema.tool_specs import RemoteServerSpec, ToolsSpec
from turnlog.services.extensions.mcp_servers_file import load_tools_file
from turnlog.services.extensions.tool_context import ToolContext, use_tool_context
from turnlog.services.worker.tools.mcp_server_settings import find_endpoint_faults
from turnlog.services.worker.tools.tool_server_types import ToolServerFailure
from turnlog.services.worker.tools.worker_tool_servers import WorkerToolServers

HEADERS: Final = {"Authorization": "SHOP_TOKEN"}

BAD_VALUES: Final = ("", "two\nlines", "ends in a line\n", " spaced", "\u20ac", "caf\u00e9", "\x7f")


@pytest.mark.parametrize("value", [*BAD_VALUES, None])
async def test_bad_header_variable_is_named_and_its_tool_is_never_in_doubt(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv("SHOP_TOKEN", raising=False)
    else:
        monkeypatch.setenv("SHOP_TOKEN", value)
    url = "http://127.0.0.1:9/"
    spec = ToolsSpec.model_validate({"servers": build_endpoint(url, headers_from=HEADERS)})
    servers = WorkerToolServers()
    with use_tool_context(ToolContext("s", 1, "key", {})):
        for each in (spec.servers["shop"], RemoteServerSpec(url=url, headers_from=HEADERS)):
            with pytest.raises(ToolServerFailure) as listed:
                await servers.list_offers("shop", each)
            with pytest.raises(ToolServerFailure) as called:
                await servers.call_tool("shop", each, "order", {"what": "hammer"})
            for failure in (listed.value, called.value):
                assert (failure.code, failure.was_requested) == ("tools_not_started", False)
                assert "shop: the variable SHOP_TOKEN " in failure.reason
                assert not value or repr(value)[1:-1] not in failure.reason
    await servers.close()


def test_bad_header_of_a_tools_file_is_a_fault_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    entry = '{"url": "http://shop.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN:-}"}}'
    file.write_text(f'{{"mcpServers": {{"shop": {entry}}}}}')
    tools = load_tools_file(file)
    (fault,) = find_endpoint_faults(tools, {**os.environ, "TOKEN": "two\nlines"})
    assert fault.path == "mcpServers.shop.headers"
    assert fault.what.startswith("the value of `Authorization` has a character")
    assert list(find_endpoint_faults(tools, {"TOKEN": "sesame"})) == []
