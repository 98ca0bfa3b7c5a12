"""The stdio tool server with additional tools that misbehave in every known way."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

# It runs with -I -S, so the repository is not on the path.
sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.support.servers.mcp_stdio_server import (
    StdioToolServer,
    serve_requests,
)

SLOW_SCHEMA: Final = {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
"""A schema whose pattern takes hours to match a text of a few letters."""

HOSTILE_TOOLS: Final = {
    "slow": SLOW_SCHEMA,
    "texts": SLOW_SCHEMA,
    "endless": None,
    "garbled": None,
    "refuse": None,
    "deep": None,
}


class HostileToolServer(StdioToolServer):
    """The tools of the stdio server and the hostile ones."""

    def answer_request(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        answer = super().answer_request(method, params)
        if method == "tools/list" and answer:
            for name, schema in HOSTILE_TOOLS.items():
                tool = {"name": name, "inputSchema": {"type": "object"}}
                output = {"outputSchema": {"type": "object", **schema}} if schema else {}
                answer["tools"].append(tool | output)
        if method == "tools/call" and params["name"] == "slow" and answer:
            answer["structuredContent"] = {"a": "a" * 40 + "!"}
        if method == "tools/call" and params["name"] == "deep" and answer:
            answer["structuredContent"] = {"a": json.loads("[" * 150 + "]" * 150)}
        return answer

    def build_response(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["method"] != "tools/call" or request["params"]["name"] != "refuse":
            return super().build_response(request)
        error = {"code": -32000, "message": "there are no more of them"}
        return {"jsonrpc": "2.0", "id": request["id"], "error": error}

    def run_tool(self, name: str, arguments: dict[str, str]) -> str:
        if name == "garbled":
            os.write(1, b"\xff\xfe\n")
        while name == "endless":
            os.write(1, b"x" * 1_000)
            time.sleep(0.01)
        return super().run_tool(name, arguments)


if __name__ == "__main__":
    serve_requests(HostileToolServer())
