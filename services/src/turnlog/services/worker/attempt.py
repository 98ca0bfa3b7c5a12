"""One attempt: a request is sent, and what comes back is published token by token.

The attempt ends with an answer, with a failure, or from outside; whichever it is, the text that
came and the time it took are known here, and the provider's connection is closed.
"""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import dataclass, field

from turnlog.events.call import Timings
from turnlog.events.log.ports import TokenStream
from turnlog.events.tokens import AttemptAlive, AttemptReset, Token
from turnlog.projections.session.commands import Attempt
from turnlog.projections.window.request import Request
from turnlog.services.worker.model.exchange import Finished, Model, ModelRequest, TextDelta
from turnlog.services.worker.model.failures import ModelFailure


@dataclass
class Speaking:
    """An attempt under way; its fields can be read at any moment, also after it was cut off."""

    tenant: str
    session: str
    attempt: Attempt
    tokens: TokenStream
    request: ModelRequest = field(default_factory=lambda: ModelRequest("", ()))
    """What is sent; nothing until the call is on the log."""
    text: str = ""
    first_token: int | None = None
    _started: float = field(default_factory=time.monotonic)

    async def announce(self) -> None:
        """Tell watchers that this attempt is there; what earlier ones said is void."""
        call, attempt = self.attempt.call, self.attempt.attempt
        sign = AttemptAlive if attempt == 1 else AttemptReset
        await self.tokens.publish(
            self.tenant, self.session, self.attempt.turn, sign(call=call, attempt=attempt)
        )

    async def listen(self, attempt: Attempt, request: ModelRequest, model: Model) -> Finished:
        """Make the call and publish what the model says; raises `ModelFailure`."""
        self.attempt, self.request, self._started = attempt, request, time.monotonic()
        async with aclosing(model.stream(request)) as stream:
            async for said in stream:
                match said:
                    case TextDelta(text=text):
                        await self._publish(text)
                    case Finished():
                        return said
        raise ModelFailure("incomplete", "the stream ended without a word")

    async def _publish(self, text: str) -> None:
        if self.first_token is None:
            self.first_token = self._elapsed()
        token = Token(
            call=self.attempt.call,
            attempt=self.attempt.attempt,
            offset=len(self.text),
            text=text,
        )
        self.text += text
        await self.tokens.publish(self.tenant, self.session, self.attempt.turn, token)

    def _elapsed(self) -> int:
        return round((time.monotonic() - self._started) * 1000)

    @property
    def timings(self) -> Timings:
        """How long it has taken so far."""
        return Timings(first_token=self.first_token, total=self._elapsed())


def model_request(request: Request) -> ModelRequest:
    """Hand an assembled request over as the model layer takes it."""
    return ModelRequest(
        model=request.model,
        messages=tuple({"role": said.role, "content": said.content} for said in request.messages),
        tools=request.tools,
        parameters=request.parameters,
    )
