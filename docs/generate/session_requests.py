"""Writes the methods of the session clients that send one operation each.

`make docs` runs it before the blocking clients are written, and a test fails when the committed
file differs from its output.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from docs.generate.support.source_format import format_source

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "client/src/turnlog/client"
OPERATIONS = PACKAGE / "operations.py"
CLIENT = PACKAGE / "async_client.py"
TARGET = PACKAGE / "async_session_requests.py"

HEAD = '''"""The requests of a session client, written from `operations` by `make docs`."""

{imports}
from turnlog.client import operations
from turnlog.client.async_connection import AsyncServiceConnection

@dataclass(frozen=True, slots=True)
class AsyncSessionRequests:
    """Sends the requests on one session that are an operation each."""

    turnlog: AsyncServiceConnection
    session: str
    """The session id."""
'''

KEYWORDS_FROM = 5
"""A call with this many arguments names them."""


def build_requests() -> str:
    """Return the text of the module."""
    operations = ast.parse(OPERATIONS.read_text())
    imports = [ast.unparse(node) for node in operations.body if _is_import(node)]
    methods = (_build_method(node) for node in _iterate_operations(operations))
    text = "\n\n".join((HEAD.format(imports="\n".join(imports)), *methods))
    return format_source(text, TARGET, "F401,I")


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _iterate_operations(module: ast.Module) -> Iterator[ast.FunctionDef]:
    """Yield the operations on a session, except those whose method is written by hand."""
    written = {
        node.name
        for node in ast.walk(ast.parse(CLIENT.read_text()))
        if isinstance(node, ast.AsyncFunctionDef)
    }
    for node in module.body:
        if not isinstance(node, ast.FunctionDef) or not node.args.args or node.name in written:
            continue
        answer = ast.unparse(node.returns) if node.returns else ""
        if node.args.args[0].arg == "session" and answer.startswith("ClientOperation["):
            yield node


def _build_method(operation: ast.FunctionDef) -> str:
    given = operation.args
    arguments = ["self.session", *(each.arg for each in given.args[1:])]
    arguments += [f"{each.arg}={each.arg}" for each in given.kwonlyargs]
    if len(arguments) >= KEYWORDS_FROM:
        names = [each.arg for each in (*given.args[1:], *given.kwonlyargs)]
        arguments = ["session=self.session", *(f"{name}={name}" for name in names)]
    answer = ast.unparse(operation.returns or ast.Name("None"))
    answer = answer.removeprefix("ClientOperation[").removesuffix("]")
    given.args[0] = ast.arg("self")
    doc = (ast.get_docstring(operation, clean=False) or "").rstrip()
    end = "\n        " if "\n" in doc else ""
    return "\n".join(
        (
            f"    async def {operation.name}({ast.unparse(given)}) -> {answer}:",
            f'        """{doc.replace(chr(10) + "    ", chr(10) + "        ")}{end}"""',
            f"        operation = operations.{operation.name}({', '.join(arguments)})",
            "        return await self.turnlog.send(operation)",
        )
    )


if __name__ == "__main__":
    TARGET.write_text(build_requests())
    print(TARGET)
