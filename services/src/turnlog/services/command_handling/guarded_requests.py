"""Requests as the `input_safety` of a blueprint leaves them, before anything of them is stored.

A request that is masked is handled as if it had been sent so. The digest of an idempotency key then
covers the masked request: a digest of the original would let anybody with the log try card numbers
until one fits. Every other request has the digest that it always had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Generic, TypeVar

from pydantic import JsonValue

from turnlog.contract.override_payloads import SetOverrideRequest
from turnlog.contract.payload_models import RequestModel
from turnlog.contract.session_requests import (
    DecideApprovalRequest,
    DescribeSessionRequest,
    DisplayTurnRequest,
    FeedbackRequest,
    MediaPartInput,
    OpenSessionRequest,
    PhaseSignalRequest,
    RedactTurnRequest,
    SubmitTurnRequest,
)
from turnlog.events.content import compute_digest, encode_canonical
from turnlog.events.errors import Refused
from turnlog.events.model.turn_events import InputFinding
from turnlog.projections.blueprint.input_guard import guard_values
from turnlog.projections.blueprint.schema.policy_specs import InputRule
from turnlog.services.command_handling.callers import Caller
from turnlog.services.platform.concurrency import run_text_work

GUARDED_FIELDS: Final[Mapping[type[RequestModel], frozenset[str]]] = {
    DecideApprovalRequest: frozenset({"reason", "arguments"}),
    DescribeSessionRequest: frozenset({"title", "labels", "metadata"}),
    DisplayTurnRequest: frozenset({"text"}),
    FeedbackRequest: frozenset({"comment"}),
    OpenSessionRequest: frozenset({"attributes", "title", "labels", "metadata"}),
    PhaseSignalRequest: frozenset({"carry"}),
    RedactTurnRequest: frozenset({"reason", "replacement"}),
    SetOverrideRequest: frozenset({"text"}),
    SubmitTurnRequest: frozenset({"text", "inputs", "references", "meta", "metadata"}),
}
"""The fields in which people write, by request."""

Form = TypeVar("Form", bound=RequestModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedRequest(Generic[Form]):
    """A request as the rules of its blueprint leave it."""

    rules: tuple[InputRule, ...]
    form: Form
    """The request as it may be recorded."""
    findings: tuple[InputFinding, ...] = ()
    """What was masked or noted."""
    refusal: Refused | None = None
    """Why it may not be recorded; a request that was recorded before is answered all the same."""
    is_masked: bool = False

    def create_caller(self, caller: Caller) -> Caller:
        """Return a caller whose key has a digest that covers nothing masked."""
        if caller.command is None or not self.is_masked:
            return caller
        masked = encode_canonical({"masked": self.form.model_dump(mode="json")})
        return replace(caller, command=replace(caller.command, hash=compute_digest(masked)))


async def guard_request(rules: tuple[InputRule, ...], form: Form) -> GuardedRequest[Form]:
    """Apply rules to what people wrote in a request; in a thread if it is long."""
    if not rules:
        return GuardedRequest(rules=rules, form=form)
    values = form.model_dump(include=set(GUARDED_FIELDS[type(form)])) | _list_part_names(form)
    length = len(encode_canonical(values))
    try:
        guarded = await run_text_work(partial(guard_values, rules, values), length)
    except Refused as refusal:
        return GuardedRequest(rules=rules, form=form, refusal=refusal)
    return GuardedRequest(
        rules=rules,
        form=form.model_copy(update=_restore_part_names(form, guarded.values)),
        findings=guarded.findings,
        is_masked=guarded.is_masked,
    )


def _list_part_names(form: RequestModel) -> dict[str, JsonValue]:
    """Return the names of a turn's parts, which people wrote; its digests are no words."""
    if not isinstance(form, SubmitTurnRequest) or not form.parts:
        return {}
    names = [each.name if isinstance(each, MediaPartInput) else None for each in form.parts]
    return {"parts": [*names]}


def _restore_part_names(
    form: RequestModel, values: Mapping[str, JsonValue]
) -> Mapping[str, object]:
    """Return guarded values with the parts in place of their names."""
    names = values.get("parts")
    if not isinstance(form, SubmitTurnRequest) or not form.parts or not isinstance(names, list):
        return values
    parts = [
        each.model_copy(update={"name": name}) if isinstance(each, MediaPartInput) else each
        for each, name in zip(form.parts, names, strict=True)
    ]
    return {**values, "parts": parts}
