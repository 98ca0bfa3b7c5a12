"""Writes the reference of audiences: which routes users of a proxy may call, and which operators.

`make docs` runs it, and a test fails when the committed file differs from its output.
"""

from __future__ import annotations

from pathlib import Path

from turnlog.services.gateway.app import build_openapi, create_routed_app
from turnlog.services.http.route_audiences import ROUTE_AUDIENCES, USER_VALUES

TARGET = Path(__file__).parents[1] / "reference" / "audiences.md"

HEAD = """\
# Who may call which route

Where a [trusted proxy](../running.md#who-may-do-what) names the user of a request, the user may
call the routes of users. Those of operators are refused with 403 `not-an-operator`, unless
`TURNLOG_OPERATORS` names the user, or is `*`. A request without a user comes from whoever reaches
the gateway itself, and is not restricted.

- **users**: every user.
- **own**: every user reads what the path names them for; all else is for operators.
- **operators**: operators, and auditors among them.

"""

VALUES = "Of the parameter `{name}` users may send {values} only, on every route that has it.\n"

TABLE = """
| route | what it does | for |
|---|---|---|
"""


def format_page() -> str:
    """Return the text of the page."""
    paths = build_openapi(create_routed_app())["paths"]
    audiences = {path.replace(":path}", "}"): each for path, each in ROUTE_AUDIENCES.items()}
    rows = (
        f"| `{method.upper()} {path}` | {operation['summary']} | {audiences[path]} |\n"
        for path, operations in sorted(paths.items())
        if path in audiences
        for method, operation in operations.items()
    )
    values = (
        VALUES.format(name=name, values=", ".join(f"`{each}`" for each in values))
        for name, values in USER_VALUES.items()
    )
    return "".join((HEAD, *values, TABLE, *rows))


if __name__ == "__main__":
    TARGET.write_text(format_page())
