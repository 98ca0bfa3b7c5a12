"""A tool server over standard input and output in plain Python, so that it starts at once.

It handles one request at a time: while a tool hangs, the server does not respond. It ends with its
input. With words after its name it writes them to stderr and ends at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

TOOL_NAMES: Final = ("who", "listed", "hang", "die", "variable", "lament", "mourn")

EXTRA_TOOLS: Final[dict[str, Any]] = json.loads(os.environ.get("EXTRA_TOOLS", "{}"))
"""Further tools by name, each with its schema or `absent`; they return the id of the process."""

TOOL_HINTS: Final[dict[object, dict[str, Any]]] = {
    "who": {"annotations": {"readOnlyHint": True}},
    "listed": {"annotations": {"readOnlyHint": False, "idempotentHint": True}},
    "die": {"annotations": {"destructiveHint": True}},
}


class StdioToolServer:
    """The tools, and how often they were listed."""

    list_count = 0
    grown: tuple[str, ...] = ()
    """Further tools that it has since `grow` was called."""

    def answer_request(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Return the result of a request, or None for an unknown method."""
        match method:
            case "initialize":
                about = {"name": "small", "version": "1"}
                version = params["protocolVersion"]
                return {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": about,
                }
            case "ping":
                return {}
            case "tools/list":
                self.list_count += 1
                schemas = {
                    name: {"type": "object"} for name in (*TOOL_NAMES, *self.grown)
                } | EXTRA_TOOLS
                tools = [
                    {"name": name} | ({} if of == "absent" else {"inputSchema": of})
                    for name, of in schemas.items()
                ]
                return {"tools": [{**tool, **TOOL_HINTS.get(tool["name"], {})} for tool in tools]}
            case "tools/call":
                text = self.run_tool(params["name"], params["arguments"])
                return {"content": [{"type": "text", "text": text}]}
            case _:
                return None

    def run_tool(self, name: str, arguments: dict[str, str]) -> str:
        """Run a tool; one that hangs first creates a file, if it is given a path."""
        match name:
            case "hang":
                for file in arguments.values():
                    Path(file).touch()
                signal.pause()
            case "die":
                print(*arguments.values(), sep="\n", file=sys.stderr, flush=True)
                os._exit(1)
            case "lament":
                print(*arguments.values(), sep="\n", file=sys.stderr, flush=True)
            case "mourn":
                print(arguments["words"], file=sys.stderr, flush=True)
                Path(arguments["file"]).touch()
                signal.pause()
            case "grow":
                self.grown = ("grown",)
                changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
                print(*[json.dumps(changed)] * int(arguments["times"]), sep="\n", flush=True)
            case "listed":
                return str(self.list_count)
            case "variable":
                return os.environ.get(arguments["name"], "not set")
            case _:
                pass
        return str(os.getpid())

    def build_response(self, request: dict[str, Any]) -> dict[str, Any]:
        """Build the message that answers another."""
        result = self.answer_request(request["method"], request.get("params", {}))
        unknown = {"error": {"code": -32601, "message": "there is no such method"}}
        outcome = unknown if result is None else {"result": result}
        return {"jsonrpc": "2.0", "id": request["id"], **outcome}


def serve_requests(server: StdioToolServer) -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            print(json.dumps(server.build_response(request)), flush=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("\n".join(sys.argv[1:]))
    serve_requests(StdioToolServer())
