"""Reading the recorded prompts of calls.

A recorded prompt is reproduced in two independent ways: by the references in its manifest and by
assembling the call again. Both are compared with the recorded digest. When a text was erased, the
answer names the part and still contains the manifest.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.projections.audit.record.erasure_reach import require_prompt_kept
from turnlog.projections.audit.record.prompt_readback import list_referenced_blobs
from turnlog.projections.audit.verify.prompt_reproduction import (
    ReproductionResult,
    read_verified_request,
)
from turnlog.services.api.prompt_payloads import (
    PromptAssembly,
    RecordedPromptView,
    ReproductionFault,
    ReproductionView,
    describe_messages,
)
from turnlog.services.audit.call_reproduction import ReproducedPrompt, reproduce_call
from turnlog.services.sessions.time_travel import TimeTravel
from turnlog.services.use_cases.prompts.prompt_assemblies import (
    create_assembly_meta,
    join_messages,
)
from turnlog.services.use_cases.sequenced_answer import SequencedAnswer


@dataclass(frozen=True, slots=True)
class PromptReading:
    """Reads the prompts of recorded calls."""

    time_travel: TimeTravel

    async def load_prompt(self, tenant: str, session: str, call: str) -> RecordedPromptView:
        """Reproduce the exact prompt of a call in both ways, and compare them with the record."""
        moment = await self.time_travel.find_call(tenant, session, call)
        ways = await reproduce_call(self.time_travel, moment, moment.call_context)
        return _create_recorded_prompt_view(moment.recorded, moment.call_context, ways)

    async def load_assembly(
        self, tenant: str, session: str, call: str
    ) -> SequencedAnswer[PromptAssembly]:
        """Return the prompt of a call, its layers and segments, and what was cut to fit.

        The text comes from the manifest's references and the rest from the manifest; nothing is
        assembled again. Raises `KeysErased` where words of the prompt were erased.
        """
        moment = await self.time_travel.find_call(tenant, session, call)
        fixed = moment.call_context
        require_prompt_kept(moment.recorded, fixed)
        events = await self.time_travel.load_referenced_events(moment)
        texts = self.time_travel.command_handler.texts
        blobs = await texts.read_blobs(tenant, list_referenced_blobs(fixed.manifest))
        request = read_verified_request(fixed, events, blobs)
        assembly = PromptAssembly(
            prompt=join_messages(request), meta=create_assembly_meta(fixed.manifest)
        )
        return SequencedAnswer(assembly, moment.recorded.sequence)


def _create_recorded_prompt_view(
    recorded: RecordedEvent, call: ContextAssembled, reproductions: ReproducedPrompt
) -> RecordedPromptView:
    request = (
        reproductions.reference.request if reproductions.reference.outcome == "reproduced" else None
    )
    wrong = [
        way for way in (reproductions.reference, reproductions.assembly) if way.outcome == "failed"
    ]
    return RecordedPromptView(
        session=recorded.session,
        sequence=recorded.sequence,
        call=call.call,
        turn=call.turn,
        model=call.model,
        parameters=call.parameters,
        messages=describe_messages(request.messages) if request else (),
        tools=request.tools if request else (),
        manifest=call.manifest,
        digest=call.manifest.digest,
        body_digest=call.body_digest,
        reference=_create_reproduction_view(reproductions.reference),
        assembly=_create_reproduction_view(reproductions.assembly),
        verified=not wrong,
        fault=_create_fault(wrong[0]) if wrong else None,
    )


def _create_reproduction_view(reproduction: ReproductionResult) -> ReproductionView:
    return ReproductionView(
        outcome=reproduction.outcome,
        digest=reproduction.request.digest if reproduction.request else None,
        fault=None if reproduction.outcome == "reproduced" else _create_fault(reproduction),
    )


def _create_fault(reproduction: ReproductionResult) -> ReproductionFault:
    return ReproductionFault(where=reproduction.first_difference, detail=reproduction.detail)
