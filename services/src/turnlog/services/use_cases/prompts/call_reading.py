"""Reading calls: their attempts and costs, their tool results, and the growth of their context.

Calls and growth come from the read models, and tool results from the log and the blob store. A
prompt may contain only a summary of a long tool result; the whole result is available as long as it
is stored, and is bounded by the byte limit of its blueprint.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from turnlog.contract.call_payloads import (
    CacheBreak,
    CacheBreakList,
    CacheUseMetrics,
    CallList,
    CallMetrics,
    CallRow,
    GroupMetrics,
    GrowthView,
    PrefixBreakMetrics,
    PromptSizeMetrics,
    ResultPartView,
    RuleMetrics,
    ToolResultView,
    WholeResultView,
)
from turnlog.contract.usage_payloads import CostSum, SessionUsage, TurnUsage
from turnlog.events.content import Digest, get_plain_text
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.turn_events import is_end_of_turn
from turnlog.events.store.ports import EventLog, MediaStore
from turnlog.projections.audit.record.event_queries import ToolUseOutcome, find_tool_use
from turnlog.projections.blueprint.schema.layer_specs import HISTORY_COMPONENT, STANDARD_COMPONENTS
from turnlog.projections.blueprint.sent_names import quote_sent_name
from turnlog.projections.blueprint.validation.blueprint_faults import suggest_word
from turnlog.projections.session.fold.settled_turns import find_settled_turn
from turnlog.projections.session.state import SessionState, SettledTurnRef
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.growth.cache_losses import list_cache_losses
from turnlog.projections.store.growth.group_growth import (
    GROWTH_GROUPINGS,
    MAX_GROUPINGS,
    GrowthBucket,
    GrowthGrouping,
    list_group_growth,
)
from turnlog.projections.store.growth.token_ledger import GrowthFilter, list_call_growth
from turnlog.projections.store.read.child_usage import list_turn_usage
from turnlog.projections.store.read.row_types import CallGrowth, GroupGrowth
from turnlog.projections.store.read.session_queries import find_session, list_calls
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.command_handling.row_waits import MIN_SEQUENCE_FIELD
from turnlog.services.sessions.time_travel import TimeTravel
from turnlog.services.use_cases.sessions.session_reading import SessionRowWaits

EVENT_BATCH_SIZE: Final = 64
"""How many events of a turn are read at a time."""

MAX_SHOWN_BYTES: Final = 1024 * 1024
"""Bytes of all the pictures, recordings and files of a result that an answer has in it."""


@dataclass(frozen=True, slots=True)
class CallReading:
    """Reads calls of sessions, and what they used."""

    time_travel: TimeTravel
    blueprints: BlueprintStore
    store: ReadModelStore
    row_waits: SessionRowWaits

    async def list_calls(
        self, tenant: str, session: str, min_sequence: int | None = None
    ) -> CallList:
        """List the calls of a session with all their attempts."""
        state = await self.time_travel.command_handler.require_state(tenant, session)
        if min_sequence is not None:
            await self.row_waits.wait_for_session(state, min_sequence)
        async with self.store.open_reader() as connection:
            row = await find_session(connection, tenant, session)
            calls = await list_calls(connection, tenant, session)
            turns = await list_turn_usage(connection, tenant, session)
        return CallList(
            session=session,
            sequence=row.sequence if row else 0,
            models=tuple(dict.fromkeys(call.model for call in calls)),
            profiles=tuple(dict.fromkeys(call.profile for call in calls if call.profile)),
            calls=tuple(CallRow.model_validate(call) for call in calls),
            usage=SessionUsage.model_validate(row.usage) if row else SessionUsage(),
            turns=tuple(TurnUsage.model_validate(turn) for turn in turns),
        )

    async def load_tool_result(
        self, tenant: str, session: str, call: str, tool_use: str
    ) -> ToolResultView:
        """Return the arguments of a tool use, what prompts say of its result, and all of it."""
        moment = await self.time_travel.find_call(tenant, session, call)
        log = self.time_travel.command_handler.log
        rest = [each async for each in iterate_turn_rest(log, moment.recorded)]
        used = find_tool_use(rest, call, tool_use)
        if used is None:
            detail = f"call {call} requested no tool with that id"
            raise Refused("unknown-tool-use", detail, field="id")
        turn = moment.call_context.turn
        await self._refuse_withheld_result(tenant, session, turn, used.sequence)
        returned = used.returned
        result = await self._load_result_text(tenant, returned.result if returned else None)
        store = self.time_travel.command_handler.texts.media.store
        parts = await load_part_views(store, tenant, returned.parts if returned else ())
        return _create_tool_result_view(session, used, result, parts)

    async def _refuse_withheld_result(
        self, tenant: str, session: str, turn: int, sequence: int
    ) -> None:
        state = await self.time_travel.command_handler.require_state(tenant, session)
        settled = find_settled_turn(state, turn)
        kept = settled.results if isinstance(settled, SettledTurnRef) else ()
        if any(ref.sequence == sequence for ref in kept):
            return
        if settled is not None and settled.redacted:
            detail = f"the reply of turn {turn} is withheld, and so are the results behind it"
            fix = "for an audit, read the turn's events with `stored=true`"
            raise Refused("reply-withheld", detail, fix=fix)

    async def _load_result_text(self, tenant: str, digest: Digest | None) -> str | None:
        if digest is None:
            return None
        try:
            return (await self.blueprints.blobs.get_blob(tenant, digest)).decode()
        except Corrupt:
            detail = f"blob {digest} was erased, or is damaged"
            fix = "see `text` of the tool use in `/history`"
            raise Refused("result-gone", detail, fix=fix) from None

    async def compute_growth(
        self,
        tenant: str,
        sought: GrowthFilter,
        *,
        group_by: Sequence[GrowthGrouping] = (),
        bucket: GrowthBucket | None = None,
        min_sequence: int | None = None,
    ) -> GrowthView:
        """Return the tokens of each component, what was cut, and what was saved.

        The figures are per group, and per call where a session is named.
        """
        if sought.session is not None:
            state = await self.time_travel.command_handler.require_state(tenant, sought.session)
            if min_sequence is not None:
                await self.row_waits.wait_for_session(state, min_sequence)
            return await self._compute_session_growth(state, sought, group_by, bucket)
        if min_sequence is not None:
            detail = "a sequence belongs to a session"
            fix = "name the session as well"
            raise Refused("invalid", detail, field=MIN_SEQUENCE_FIELD, fix=fix)
        async with self.store.open_reader() as connection:
            found = await list_group_growth(
                connection=connection, tenant=tenant, by=group_by, sought=sought, bucket=bucket
            )
        return _create_growth_view(None, None, found)

    async def list_cache_breaks(
        self, tenant: str, sought: GrowthFilter, limit: int
    ) -> CacheBreakList:
        """List what was not read from the caches of providers, the dearest losses first."""
        async with self.store.open_reader() as connection:
            found = await list_cache_losses(connection, tenant, sought, limit)
        return CacheBreakList(breaks=tuple(map(CacheBreak.model_validate, found)))

    async def _compute_session_growth(
        self,
        state: SessionState,
        sought: GrowthFilter,
        group_by: Sequence[GrowthGrouping],
        bucket: GrowthBucket | None,
    ) -> GrowthView:
        tenant, session = state.tenant, state.session
        async with self.store.open_reader() as connection:
            row = await find_session(connection, tenant, session)
            found = await list_group_growth(
                connection=connection, tenant=tenant, by=group_by, sought=sought, bucket=bucket
            )
            calls = await list_call_growth(connection, tenant, session, sought)
        material = await self.blueprints.load_material(state)
        counted = [call for call in calls if call.kind not in material.blueprint.summary_calls]
        sequence, rate = row.sequence if row else 0, _compute_history_growth(counted)
        return _create_growth_view(session, sequence, found, calls=calls, rate=rate)


def parse_groupings(group_by: str | None) -> tuple[GrowthGrouping, ...]:
    """Return what calls are grouped by, from a list with commas."""
    names = [] if group_by is None else [name.strip() for name in group_by.split(",")]
    known: list[GrowthGrouping] = [
        each for name in names for each in GROWTH_GROUPINGS if each == name
    ]
    for name in set(names).difference(GROWTH_GROUPINGS):
        detail = f"calls have no {quote_sent_name(name)} to group them by"
        fix = suggest_word(name[:80], GROWTH_GROUPINGS)
        raise Refused("invalid", detail, field="group_by", fix=fix)
    if len(names) > MAX_GROUPINGS or len(set(names)) < len(names):
        detail = f"{len(names)} values to group calls by"
        fix = f"name {MAX_GROUPINGS} different ones at most"
        raise Refused("invalid", detail, field="group_by", fix=fix)
    return tuple(known)


async def iterate_turn_rest(
    log: EventLog, recorded: RecordedEvent
) -> AsyncGenerator[RecordedEvent]:
    """Yield the events after a call's prompt, in batches, until its turn has ended."""
    head = recorded.head
    turn = recorded.event.turn if isinstance(recorded.event, ContextAssembled) else 0
    while events := await log.read_next_events(
        recorded.tenant, recorded.session, head, EVENT_BATCH_SIZE
    ):
        for each in events:
            yield each
        head = events[-1].head
        if any(is_end_of_turn(each.event, turn) for each in events):
            return


async def load_part_views(
    store: MediaStore, tenant: str, parts: Iterable[MediaPart]
) -> tuple[ResultPartView, ...]:
    """Return what an answer has of the parts of a result: the bytes of as many as it has room for.

    A result may have dozens, which its reader finds by digest.
    """
    views: list[ResultPartView] = []
    room = MAX_SHOWN_BYTES
    for part in parts:
        data: str | None = None
        if part.size <= room:
            with suppress(Corrupt):
                data = b64encode(await store.get_media(tenant, part.digest)).decode()
                room -= part.size
        views.append(
            ResultPartView(
                kind=part.kind,
                digest=part.digest,
                size=part.size,
                media_type=part.media_type,
                name=part.name,
                data=data,
            )
        )
    return tuple(views)


def _create_tool_result_view(
    session: str,
    tool_use: ToolUseOutcome,
    result_text: str | None,
    parts: tuple[ResultPartView, ...],
) -> ToolResultView:
    called, returned = tool_use.called, tool_use.returned
    whole = returned.whole if returned else None
    return ToolResultView(
        session=session,
        sequence=tool_use.sequence,
        call=called.call,
        id=called.id,
        tool=called.tool,
        arguments=called.arguments,
        edited=tool_use.edited,
        outcome=returned.outcome if returned else None,
        detail=returned.detail if returned else "",
        text=get_plain_text(returned.text) if returned else None,
        treatment=returned.treatment if returned else "kept",
        digest=whole.digest if whole else returned.result if returned else None,
        characters=returned.characters if returned else 0,
        result=result_text,
        parts=parts,
        whole=WholeResultView(digest=whole.digest, size=whole.size) if whole else None,
    )


def _create_growth_view(
    session: str | None,
    sequence: int | None,
    groups: Sequence[GroupGrowth],
    *,
    calls: Sequence[CallGrowth] = (),
    rate: float | None = None,
) -> GrowthView:
    return GrowthView(
        session=session,
        sequence=sequence,
        groups=tuple(map(create_group_metrics, groups)),
        calls=tuple(map(_create_call_metrics, calls)),
        history_growth=rate,
    )


def create_group_metrics(group: GroupGrowth) -> GroupMetrics:
    """Return the totals of a group of calls as responses have them."""
    return GroupMetrics(
        key=group.key,
        at=group.at,
        calls=group.calls,
        tokens=group.tokens,
        prompt_sizes=group.prompt_sizes and PromptSizeMetrics.model_validate(group.prompt_sizes),
        components=_format_components(group.components),
        savings_estimate=group.savings,
        cut_calls=group.cut_calls,
        cut_turns=group.cut_turns,
        rules=tuple(map(RuleMetrics.model_validate, group.rules)),
        prefix_breaks=tuple(map(PrefixBreakMetrics.model_validate, group.prefix_breaks)),
        caches=tuple(map(CacheUseMetrics.model_validate, group.caches)),
        input_tokens=group.input_tokens,
        cached_tokens=group.cached_tokens,
        cost=CostSum.model_validate(group.cost),
        retrieval_hit_rate=group.retrieval_hit_rate,
    )


def _create_call_metrics(call: CallGrowth) -> CallMetrics:
    return CallMetrics(
        call=call.call,
        turn_id=call.turn,
        at=call.at,
        kind=call.kind,
        model=call.model,
        profile=call.profile,
        budget=call.budget,
        tokens=call.tokens,
        components=_format_components(call.components),
        optimizations_applied=tuple(call.optimizations),
        savings_estimate=call.savings,
        saved=call.optimizations,
        cut_turns=call.cut_turns,
        copied=call.copied,
        prefix_call=call.prefix_call,
        prefix_tokens=call.prefix_tokens,
        prefix_ended_by=call.prefix_ended_by,
        cache=CacheUseMetrics.model_validate(call.cache) if call.cache else None,
    )


def _format_components(tokens: Mapping[str, int]) -> dict[str, int]:
    every = {**dict.fromkeys(STANDARD_COMPONENTS, 0), **tokens}
    return {f"{name}_tokens": count for name, count in every.items()}


def _compute_history_growth(calls: Sequence[CallGrowth]) -> float | None:
    """Return the mean increase of history tokens from one turn to the next.

    None before two turns.
    """
    tokens_by_turn: dict[int, int] = {}
    for call in calls:
        tokens = call.components.get(HISTORY_COMPONENT, 0)
        tokens_by_turn[call.turn] = max(tokens, tokens_by_turn.get(call.turn, 0))
    history = list(tokens_by_turn.values())
    return (history[-1] - history[0]) / (len(history) - 1) if len(history) > 1 else None
