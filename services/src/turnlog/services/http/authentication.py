"""ASGI middleware that establishes who sends a request, before a byte of its body is read.

What is served without a principal is what has no data of anybody: the page's files, the probes and
the published documents. A request that goes on for long, such as an event stream, ends when its
key is revoked or its token expires: the client connects again, and is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnlog.contract.api_paths import API
from turnlog.events.async_tasks import run_tasks
from turnlog.events.errors import Refused, TurnlogError, Unavailable
from turnlog.services.http.headers import SSE_MEDIA_TYPE
from turnlog.services.http.problem_details import create_error_response
from turnlog.services.http.streamed_bodies import StreamedBody
from turnlog.services.identity.authenticator import Authenticator, create_sign_in_refusal
from turnlog.services.identity.permissions import OPEN_PATHS
from turnlog.services.identity.principals import Principal
from turnlog.services.identity.rate_limits import RateLimits, TooManyRequests
from turnlog.services.identity.tenant_service import TenantPolicies, UnlimitedTenants

CHECK_INTERVAL: Final = 0.5
"""Seconds between two looks whether those who read streams may still do so."""

_log = structlog.get_logger("turnlog.identity")


RecheckReach = Callable[[], Awaitable[None]]
"""Raises `Refused` if its sender may not go on with a request."""


def note_recheck(request: Request, recheck: RecheckReach) -> None:
    """Have a request end while it is being answered once `recheck` refuses it."""
    request.state.rechecks.append(recheck)


class SignInEnded(Exception):
    """The principal of a request is let in no more."""


@dataclass(eq=False)
class _OpenRequest:
    principal: Principal
    scope: asyncio.Timeout
    checks: list[RecheckReach]
    """What a route has added to the check of the principal."""


@dataclass
class OpenRequests:
    """The requests that a gateway is answering, with whose they are."""

    authenticator: Authenticator
    limits: RateLimits
    tenants: TenantPolicies = field(default_factory=UnlimitedTenants)
    """What each tenant may send."""
    _open: set[_OpenRequest] = field(init=False, default_factory=set[_OpenRequest])

    @asynccontextmanager
    async def count_body(
        self, principal: Principal, scope: Scope, receive: Receive
    ) -> AsyncGenerator[Receive]:
        """Count the body of a request; yields what receives it, and counts it as it comes.

        Raises `TooManyRequests`, before anything is read of a body whose length is stated.
        """
        headers = Headers(scope=scope)
        stated = headers.get("content-length", "0")
        size = int(stated) if stated.isdecimal() else 0
        if not size and "transfer-encoding" not in headers:
            yield receive
            return
        settings = await self.tenants.load_settings(principal.tenant)
        budget = self.limits.create_body_budget(principal, settings.body_bytes_per_minute)
        if not budget.shares:
            yield receive
            return
        budget.reserve_bytes(size)

        async def receive_counted() -> Message:
            message = await receive()
            budget.count_piece(len(message.get("body", b"")))
            return message

        try:
            yield receive_counted
        finally:
            budget.release_rest()

    @asynccontextmanager
    async def run_request(
        self, principal: Principal, checks: list[RecheckReach]
    ) -> AsyncGenerator[None]:
        """Run a request; raises `SignInEnded` when its principal is let in no more."""
        scope = asyncio.timeout(None)
        request = _OpenRequest(principal, scope, checks)
        try:
            async with scope:
                self._open.add(request)
                try:
                    yield
                finally:
                    self._open.discard(request)
        except TimeoutError:
            if scope.expired():
                raise SignInEnded from None
            raise

    @asynccontextmanager
    async def run_checks(self) -> AsyncGenerator[None]:
        """Check open requests while the context is open."""
        async with run_tasks(self._check_repeatedly()):
            yield

    async def _check_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            try:
                await self._end_invalid_requests()
            except TurnlogError as error:
                # Nobody can be revoked either while the library cannot be written.
                _log.warning("keys-unavailable", detail=str(error))

    async def _end_invalid_requests(self) -> None:
        verdicts = dict[Principal, bool]()
        for request in [*self._open]:
            principal = request.principal
            if principal not in verdicts:
                verdicts[principal] = await self.authenticator.is_still_valid(principal)
            is_valid = verdicts[principal] and await _is_still_reached(request.checks)
            if not is_valid and request in self._open:
                request.scope.reschedule(asyncio.get_running_loop().time())


async def _is_still_reached(checks: Sequence[RecheckReach]) -> bool:
    try:
        for check in checks:
            await check()
    except Refused:
        return False
    return True


@dataclass(frozen=True, slots=True)
class AuthenticationMiddleware:
    """ASGI middleware that passes on requests with their principal, and refuses the others."""

    app: ASGIApp
    open_requests: OpenRequests
    body_seconds: float
    """Seconds to read what is left of a refused request's body."""
    part_bytes: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Establish who sends a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        sender, path = scope["client"][0] if scope["client"] else "", scope["path"]
        is_open = path in OPEN_PATHS or not path.startswith(f"{API}/")
        authenticator = self.open_requests.authenticator
        try:
            principal = await authenticator.authenticate(
                Headers(scope=scope).getlist, sender, is_open=is_open
            )
        except TurnlogError as error:
            await self._refuse(error, scope, receive, send)
            return
        scope.setdefault("state", {}).update(principal=principal, rechecks=[])
        if is_open or principal.sign_in in {"none", "root-key"}:
            await self.app(scope, receive, send)
            return
        is_stream = SSE_MEDIA_TYPE in Headers(scope=scope).get("accept", "")
        limits = self.open_requests.limits
        try:
            with limits.limit_request(principal, is_stream=is_stream):
                counting = self.open_requests.count_body(principal, scope, receive)
                async with counting as receive_counted:
                    await self._pass_while_valid(principal, scope, receive_counted, send)
        except (TooManyRequests, Unavailable) as error:
            await self._refuse(error, scope, receive, send)

    async def _refuse(
        self, error: TurnlogError, scope: Scope, receive: Receive, send: Send
    ) -> None:
        body = StreamedBody(
            receive=receive, send=send, seconds=self.body_seconds, part_bytes=self.part_bytes
        )
        response = create_error_response(error, closing=True)
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = 'Bearer realm="turnlog"'
        await response(scope, body.receive_piece, body.send_after_body)

    async def _pass_while_valid(
        self, principal: Principal, scope: Scope, receive: Receive, send: Send
    ) -> None:
        has_begun = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            checks = scope["state"]["rechecks"]
            async with self.open_requests.run_request(principal, checks):
                await self.app(scope, receive, send_and_note)
        except SignInEnded:
            if has_begun:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await self._refuse(create_sign_in_refusal(), scope, receive, send)
