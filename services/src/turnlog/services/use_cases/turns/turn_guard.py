"""Guarding a turn before anything of it is stored: its text, inputs, references and metadata.

A turn that is masked is recorded as if it had been submitted so. The digest of an idempotency key
then covers the masked request: a digest of the original would let anybody with the log try card
numbers until one fits. Every other turn has the digest that it always had.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from turnlog.contract.session_requests import SubmitTurnRequest
from turnlog.events.codec import CommandRef
from turnlog.events.content import compute_digest, encode_canonical
from turnlog.events.errors import Refused
from turnlog.events.model.turn_events import InputFinding
from turnlog.projections.blueprint.input_guard import guard_values
from turnlog.projections.blueprint.schema.policy_specs import InputRule
from turnlog.services.platform.concurrency import run_text_work

GUARDED_FIELDS: Final = ("text", "inputs", "references", "meta")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedTurn:
    """A turn as the rules of its blueprint leave it."""

    rules: tuple[InputRule, ...]
    request: SubmitTurnRequest
    """The request as it may be recorded."""
    findings: tuple[InputFinding, ...] = ()
    """What was masked or noted."""
    refusal: Refused | None = None
    """Why it may not be recorded; a request that was recorded before is answered all the same."""
    is_masked: bool = False

    def create_command_ref(self, command: CommandRef | None) -> CommandRef | None:
        """Return the key of the request with a digest that covers nothing masked."""
        if command is None or not self.is_masked:
            return command
        masked = encode_canonical({"masked": self.request.model_dump(mode="json")})
        return replace(command, hash=compute_digest(masked))


async def guard_turn(rules: tuple[InputRule, ...], request: SubmitTurnRequest) -> GuardedTurn:
    """Apply the rules of a blueprint to a request, in a thread if it is long."""
    if not rules:
        return GuardedTurn(rules=rules, request=request)
    values = request.model_dump(include=set(GUARDED_FIELDS))
    length = len(encode_canonical(values))
    try:
        guarded = await run_text_work(partial(guard_values, rules, values), length)
    except Refused as refusal:
        return GuardedTurn(rules=rules, request=request, refusal=refusal)
    return GuardedTurn(
        rules=rules,
        request=request.model_copy(update=guarded.values),
        findings=guarded.findings,
        is_masked=guarded.is_masked,
    )
