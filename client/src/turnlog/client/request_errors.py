"""What a request may end with instead of an answer, as exceptions by what the caller can do.

A service answers with problem details (RFC 9457): a `code` for programs, the `field` at fault and a
fix. `RequestFailed` has all of them; its subclasses say whether the request must change, whether it
is worth another try, or whether the operator is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx
from pydantic import TypeAdapter, ValidationError

from turnlog.contract.turn_payloads import RequestedApproval


class RequestFailed(Exception):
    """A request was refused or not answered; the base of all errors of this client."""

    def __init__(
        self,
        detail: str,
        *,
        status: int | None = None,
        code: str = "no-answer",
        field: str | None = None,
        fix: str | None = None,
        problem: Mapping[str, Any] | None = None,
        url: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        place = f"{field}: " if field and not detail.startswith(f"{field}: ") else ""
        way_out = f"; {fix}" if fix and not detail.endswith(f"; {fix}") else ""
        super().__init__(f"{code}: {place}{detail}{way_out}")
        self.detail = detail
        self.status = status
        """The HTTP status; None if there was no answer."""
        self.code = code
        """The code of the problem, such as `unknown-session`."""
        self.field = field
        """The field, parameter or header at fault."""
        self.fix = fix
        """What to change, if that is known."""
        self.problem = dict(problem or {})
        """The whole problem as the service sent it; empty if a proxy answered instead."""
        self.url = url
        """The address that was requested."""
        self.retry_after = retry_after
        """The seconds after which the service wants the request again, if it says so."""


class InvalidRequest(RequestFailed):
    """The request cannot be understood, or a value in it cannot be; it must change."""


class RequestForbidden(RequestFailed):
    """The service, or a proxy before it, does not take this request from this caller."""


class NotFound(RequestFailed):
    """There is no such session, turn, call, blueprint or route."""


class RequestConflict(RequestFailed):
    """The session does not allow it as it stands; read it again and decide anew."""


class ServiceUnavailable(RequestFailed):
    """The service did not answer or could not serve the request, also when it was repeated.

    A command may or may not have been carried out.
    """


class ServiceFault(RequestFailed):
    """The service failed, or its stored data is not what it should be; tell the operator."""


class UnusableAnswer(RequestFailed):
    """The answer is none that this client reads; a command may have been carried out."""


class AnswerTooLarge(UnusableAnswer):
    """The answer has a body, a line or an event beyond the limit of this client."""


class RequestRedirected(UnusableAnswer):
    """The answer names another address; the client goes to none that it was not given."""


class TurnUnsettled(RequestFailed):
    """A turn is recorded and was not settled in time; it goes on."""

    def __init__(
        self, turn: int, detail: str = "", *, code: str = "unsettled", fix: str | None = None
    ) -> None:
        super().__init__(detail or f"turn {turn} is not settled", code=code, fix=fix)
        self.turn = turn
        """The number of the turn."""


class ApprovalNeeded(TurnUnsettled):
    """A turn waits for a person: it goes on when its `approvals` are decided."""

    def __init__(self, turn: int, approvals: Sequence[RequestedApproval]) -> None:
        tools = ", ".join(each.tool for each in approvals)
        super().__init__(
            turn,
            f"turn {turn} waits for approval of {tools}",
            code="approval-needed",
            fix="decide it, and go on with the turn's stream",
        )
        self.approvals = tuple(approvals)
        """The tools that wait for a decision."""


_PROBLEM: Final = TypeAdapter(dict[str, Any])

_PLACE_CHARACTERS: Final = 200

_UNAVAILABLE: Final = frozenset({429, 502, 503, 504})


def read_retry_after(response: httpx.Response | None) -> float | None:
    """Return the seconds after which the service wants a request again; None if it names none."""
    seconds = response.headers.get("Retry-After", "") if response is not None else ""
    return float(seconds) if seconds.isdecimal() else None


def create_error(
    url: httpx.URL, response: httpx.Response | None, failure: httpx.RequestError | None = None
) -> RequestFailed:
    """Return the error that a response, whose body was read, describes; or that there was none."""
    address = str(url.copy_with(userinfo=b""))
    if response is None:
        place = url.copy_with(userinfo=b"", query=None)
        reason = f": {failure}" if failure and str(failure) else ""
        return ServiceUnavailable(
            f"{place} was not answered, or its stream broke off{reason}",
            fix="see that a service runs at this address, and send it again",
            url=address,
        )
    if 300 <= response.status_code < 400:  # noqa: PLR2004 - the redirections of HTTP
        return _create_redirect_error(address, response)
    problem = _read_problem(response)
    kind = _choose_error(response.status_code)
    return kind(
        str(problem.get("detail") or f"the service answered {response.status_code}"),
        status=response.status_code,
        code=str(problem.get("code") or response.status_code),
        field=problem.get("field"),
        fix=problem.get("fix"),
        problem=problem,
        url=address,
        retry_after=read_retry_after(response),
    )


def create_form_error(error: Exception) -> UnusableAnswer:
    """Return the error for an answer of another form than the service's answers have."""
    what = type(error).__name__
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    fix = "see that a service of this release runs at the address"
    detail = f"the answer has another form than those of the service: {what}"
    return UnusableAnswer(detail, code="bad-answer", fix=fix)


def _create_redirect_error(address: str, response: httpx.Response) -> RequestRedirected:
    place = response.headers.get("Location", "")[:_PLACE_CHARACTERS]
    return RequestRedirected(
        f"the service answered {response.status_code}, which leads to {place!r}",
        status=response.status_code,
        code="redirected",
        fix="give the client the address of the service itself",
        url=address,
    )


def _read_problem(response: httpx.Response) -> dict[str, Any]:
    """Return the problem of a response; empty where a proxy answered in another form."""
    try:
        return _PROBLEM.validate_json(response.content)
    except ValidationError:
        return {}


def _choose_error(status: int) -> type[RequestFailed]:
    if status in _UNAVAILABLE:
        return ServiceUnavailable
    match status:
        case 401 | 403 | 421:
            return RequestForbidden
        case 404 | 410:
            return NotFound
        case 409:
            return RequestConflict
        case _ if status >= 500:  # noqa: PLR2004 - the server errors of HTTP
            return ServiceFault
        case _:
            return InvalidRequest
