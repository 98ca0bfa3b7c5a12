"""The dependency of routes whose answers are recorded in the log of reads.

A look is recorded once its answer is there and before a byte of it is sent; where it cannot be
recorded, there is no answer. What is refused is no look. Only those who signed in are recorded: a
gateway that asks nobody who he is has nothing to write down.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import Depends, Request
from fastapi.params import Depends as Dependency

from turnlog.contract.api_paths import MAX_REASON_LENGTH, REASON_HEADER
from turnlog.events.errors import Refused
from turnlog.events.model.installation.read_events import RecordRead
from turnlog.events.storable_text import replace_unstorable_texts
from turnlog.services.http.request_tenant import RequestSettings
from turnlog.services.identity.principals import Principal
from turnlog.services.reads.read_log import ReadLog

LookKind = Literal[
    "prompt",
    "assembly",
    "window",
    "why",
    "diff",
    "what-if",
    "withheld",
    "bundle",
    "proof",
    "export",
    "reads",
]
"""What is looked at."""

_MAX_NAME: Final = 200
"""Characters of what a path names that are recorded; no session or call has as many."""


@dataclass(kw_only=True)
class Look:
    """What a request looks at, as far as it is known; nothing without a kind."""

    principal: Principal | None
    reason: str | None
    requires_reason: bool
    kind: LookKind | None = None
    session: str | None = None
    """The session, where the path names none."""

    def begin(self, kind: LookKind) -> None:
        """Say what it is; raises `Refused` where a reason is required and lacks."""
        self.kind = kind
        if self.is_recorded and self.requires_reason and self.reason is None:
            detail = "whoever looks at this has to say why"
            fix = f"send the header {REASON_HEADER}; the command line has `--reason`"
            raise Refused("reason-missing", detail, field=REASON_HEADER, fix=fix)

    @property
    def is_recorded(self) -> bool:
        """Whether it is recorded: it is one, and somebody signed in."""
        return (
            self.kind is not None
            and self.principal is not None
            and self.principal.sign_in != "none"
        )


async def open_look(request: Request, settings: RequestSettings) -> AsyncGenerator[Look]:
    """Yield the look of a request, and record it when its answer is there."""
    look = Look(
        principal=request.scope.get("state", {}).get("principal"),
        reason=read_reason(request),
        requires_reason=settings.require_reason == "on",
    )
    yield look
    if look.is_recorded and look.principal is not None:
        reads: ReadLog = request.app.state.use_cases.reads.reads
        event = _create_event(request, look, look.principal)
        await reads.record_look(look.principal.tenant, look.principal.actor, event)


# With this scope it ends before the answer is sent, with the answer of the handler or its error.
RequestLook = Annotated[Look, Depends(open_look, scope="function")]


def record_look(kind: LookKind) -> Dependency:
    """Return the dependency of a route whose answers are all of one kind."""

    async def begin(look: RequestLook) -> None:
        look.begin(kind)

    found: Dependency = Depends(begin, scope="function")
    return found


def read_reason(request: Request) -> str | None:
    """Return the reason that a request gives, in UTF-8; raises `Refused` for one that is none."""
    name = REASON_HEADER.lower().encode()
    given = [value for header, value in request.scope["headers"] if header == name]
    if not given:
        return None
    try:
        reason: str = given[0].decode().strip()
    except UnicodeDecodeError:
        reason = ""
    if len(given) > 1 or not reason.isprintable() or not 0 < len(reason) <= MAX_REASON_LENGTH:
        fix = f"send it once, 1 to {MAX_REASON_LENGTH} printable characters in UTF-8"
        raise Refused("bad-reason", "the reason is invalid", field=REASON_HEADER, fix=fix)
    return reason


def _create_event(request: Request, look: Look, principal: Principal) -> RecordRead:
    named = request.path_params
    session, turn = named.get("session", look.session), named.get("turn")
    other = request.query_params.get("other")
    return RecordRead(
        what=look.kind or "",
        session=_bound(session),
        call=_bound(named.get("call")),
        turn=int(turn) if turn is not None else None,
        other_session=_bound(other) if other != session else None,
        other_call=_bound(named.get("second")),
        sign_in=principal.sign_in,
        key=principal.key_id,
        address=request.client.host if request.client else None,
        reason=look.reason,
    )


def _bound(name: str | None) -> str | None:
    return None if name is None else str(replace_unstorable_texts(name))[:_MAX_NAME]
