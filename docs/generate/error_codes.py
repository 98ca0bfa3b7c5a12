"""Writes the reference of error codes from their catalogue.

`make docs` runs it, and a test fails when the committed file differs from its output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path

import httpx

from turnlog.client.request_errors import create_error
from turnlog.services.api.published_errors.error_code import ErrorCode
from turnlog.services.api.published_errors.installation_codes import INSTALLATION_CODES
from turnlog.services.api.published_errors.request_codes import REQUEST_CODES
from turnlog.services.api.published_errors.session_codes import SESSION_CODES
from turnlog.services.api.published_errors.turn_failures import TURN_FAILURES

TARGET = Path(__file__).parents[1] / "reference" / "errors.md"

CLIENT_CLASSES = {
    "answer-too-large": "`AnswerTooLarge`",
    "approval-needed": "`ApprovalNeeded`",
    "bad-answer": "`UnusableAnswer`",
    "no-answer": "`ServiceUnavailable`",
    "redirected": "`RequestRedirected`",
    "unsettled": "`TurnUnsettled`",
}
"""The classes of what a client finds out without an answer."""

HEAD = """\
# Error codes

Every `code` that a request can end with, over HTTP, at the command line and in the
[clients](../clients.md). Programs decide by `code`; `detail` is a sentence for people and changes.

An HTTP answer is `application/problem+json` (RFC 9457) with `type`, `title`, `status`, `detail`,
`code` and nearly always a `fix`. What a code adds is in the last column of its table: `field` names
the field, parameter, header, option or setting at fault, `faults` lists all of them, `sequence` is
where the session is now, and `Retry-After` is a header, in seconds. A status of `-` is a code that
only the command line or a client gives. The command line shows code, field, detail and fix, and ends
with the exit code of the table.

A refused request has recorded nothing, and its `Idempotency-Key` is free; only after `not-answered`,
`not-in-time`, `unavailable` and the codes of clients (`-`) it is, or may be, recorded. Whether the
*same* request with the *same* key helps:

- **yes**: after a while, by itself. The clients do that, and wait for `Retry-After`;
- **later**: once the session, the installation or the blueprint has changed as `what to do` says;
- **no**: the answer stays the same as long as the request does.

A code that is not here comes from another release: go by the status, as the clients do.
"""  # noqa: E501 - text of the page

FAILURES = """\

## Turns that fail

The request was taken, and the turn failed later: `code` of `turn-failed` and `attempt-ended` in the
record, of `failed` in the stream of a turn, and `reason` of the turn in answers. The same request
with the same key returns the failed turn; to try again, submit it with another key. `retryable` says
whether the same text may succeed. A call that a code of the tables above refused, such as
`over-budget`, fails with that code.

| code | meaning | what to do |
|---|---|---|
"""  # noqa: E501 - text of the page

TABLE = """
## {title}

| code | status | exit | class in clients | meaning | what to do | same key helps | adds |
|---|---|---|---|---|---|---|---|
"""


def format_page() -> str:
    """Return the text of the page."""
    failures = (
        f"| `{code}` | {text.meaning} | {text.action} |\n" for code, text in TURN_FAILURES.items()
    )
    return "".join(
        (
            HEAD,
            *_iterate_table("Requests", REQUEST_CODES),
            *_iterate_table("Sessions, blueprints and the library", SESSION_CODES),
            *_iterate_table("The installation", INSTALLATION_CODES),
            FAILURES,
            *failures,
        )
    )


def _iterate_table(title: str, codes: Mapping[str, ErrorCode]) -> Iterator[str]:
    yield TABLE.format(title=title)
    for name, code in codes.items():
        columns = (
            f"`{name}`",
            str(code.status.value) if code.status else "-",
            str(int(code.get_exit_code())),
            CLIENT_CLASSES.get(name) or _find_client_class(code.status),
            code.meaning,
            code.action,
            code.get_retry_advice(),
            ", ".join(f"`{each}`" for each in code.contains) or "-",
        )
        yield f"| {' | '.join(columns)} |\n"


def _find_client_class(status: HTTPStatus | None) -> str:
    """Return the class that the clients raise for a status."""
    if status is None:
        return "-"
    return f"`{type(create_error(httpx.URL('/'), httpx.Response(status))).__name__}`"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(format_page())
    print(TARGET)
