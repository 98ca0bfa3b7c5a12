from __future__ import annotations

from io import StringIO

import httpx
import pytest
from rich.console import Console

from turnlog.events.errors import (
    Conflict,
    Corrupt,
    LaterRelease,
    Refused,
    TooLarge,
    TurnlogError,
    Unavailable,
)
from turnlog.services.api.published_errors.error_catalogue import ERROR_CODES
from turnlog.services.api.published_errors.error_code import ExitCode
from turnlog.services.cli.client.http_responses import require_success
from turnlog.services.cli.error_display import describe_error, print_error
from turnlog.services.http.problem_details import PROBLEM_MEDIA_TYPE, convert_error

ERRORS: list[tuple[TurnlogError, ExitCode]] = [
    (Refused("unknown-session", "there is no such session", field="session"), ExitCode.NOT_FOUND),
    (Refused("unknown-setting", "no process has this setting", field="TURNLOG_X"), ExitCode.USAGE),
    (Refused("bad-id", "'a b' is not an id", field="session", fix="use others"), ExitCode.USAGE),
    (Refused("key-reused", "this key was used before with a different body"), ExitCode.CONFLICT),
    (Refused("faulty-blueprint", "line 3", field="blueprint"), ExitCode.ERROR),
    (TooLarge("event", 9, 8), ExitCode.ERROR),
    (Conflict("s1", 4, 7), ExitCode.CONFLICT),
    (Unavailable("log", "no leader", retry_after=2), ExitCode.ERROR),
    (Corrupt("event 3", "its bytes have changed"), ExitCode.VERIFICATION_FAILED),
]


def build_problem_response(error: TurnlogError) -> httpx.Response:
    problem = convert_error(error)
    body = problem.model_dump_json(exclude_none=True)
    headers = {"content-type": PROBLEM_MEDIA_TYPE}
    request = httpx.Request("GET", "http://127.0.0.1/v1/sessions")
    return httpx.Response(problem.status, content=body, headers=headers, request=request)


@pytest.mark.parametrize(("error", "code"), ERRORS, ids=lambda error: type(error).__name__)
def test_error_has_the_same_exit_code_locally_and_over_http(
    error: TurnlogError, code: ExitCode
) -> None:
    assert describe_error(error).exit_code == code
    with pytest.raises(TurnlogError) as raised:
        require_success(build_problem_response(error))
    assert describe_error(raised.value).exit_code == code


def test_data_of_a_later_release_is_not_reported_as_damaged() -> None:
    shown = describe_error(LaterRelease("database schema", "made by a later release"))
    assert (shown.exit_code, shown.fix.split(",")[0]) == (
        ExitCode.ERROR,
        "run the release that wrote it",
    )


def test_every_gateway_conflict_has_the_conflict_exit_code() -> None:
    conflicts = [code for code, each in ERROR_CODES.items() if each.status in {409, 429}]
    assert conflicts
    assert {describe_error(Refused(code, "")).exit_code for code in conflicts} == {
        ExitCode.CONFLICT
    }


def test_every_gateway_404_has_the_not_found_exit_code() -> None:
    missing = [code for code, each in ERROR_CODES.items() if each.status == 404]
    assert {describe_error(Refused(code, "")).exit_code for code in missing} == {ExitCode.NOT_FOUND}


def test_error_output_has_one_line_each_for_code_detail_and_fix() -> None:
    console = Console(width=60, record=True, file=StringIO())
    print_error(
        describe_error(Refused("bad-id", "'a b' is no id", field="session", fix="say a-b")), console
    )
    lines = [line.strip() for line in console.export_text().splitlines()]
    assert lines == ["error  bad-id  session", "'a b' is no id", "do  say a-b"]


def test_error_response_without_problem_details_is_reported_with_its_status() -> None:
    request = httpx.Request("GET", "http://127.0.0.1/")
    with pytest.raises(Unavailable, match="502"):
        require_success(httpx.Response(502, text="<html>", request=request))
