"""One run of a session forward: turns are drawn until a prompt is cut, summarised or refused.

The prompts are made by the assembler that makes real ones, and a summary is due by the rule that
makes it due in a worker. The last call of each kind in a turn is assembled: it has the longest
prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import AppliedTrimStep
from turnlog.events.model.memory_events import SummaryBegun
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.projections.audit.record.session_replay import SessionReplay
from turnlog.projections.forecast.drawn_events import build_drawn_events
from turnlog.projections.forecast.drawn_segments import gather_segments
from turnlog.projections.forecast.turn_draws import DrawnTurn, RunDraws
from turnlog.projections.prompt.assemble import (
    PlannedPrompt,
    fill_prompt,
    find_missing_turns,
    fit_prompt,
    plan_prompt,
)
from turnlog.projections.prompt.assembly_inputs import PromptCall
from turnlog.projections.prompt.budget.budget_error import BudgetExceeded
from turnlog.projections.prompt.budget.due_summaries import (
    find_due_summary,
    has_summaries,
    list_summary_candidates,
)
from turnlog.projections.prompt.budget.plan_sizes import measure_plan
from turnlog.projections.prompt.budget.trim_ladder import fit_plan
from turnlog.projections.prompt.request_dialect import PLAIN_DIALECT
from turnlog.projections.prompt.sources.offered_tools import LEAVE_OUT_TOOL_STEP
from turnlog.projections.prompt.sources.parent_inputs import collect_turn_inputs
from turnlog.projections.prompt.sources.session_material import (
    InstalledExtensions,
    SessionMaterial,
)
from turnlog.projections.session.state import SessionState
from turnlog.projections.structured_output.output_requests import find_output_request

LimitEffect = Literal["cut", "summary", "refused"]
"""What becomes of a prompt at a limit: a rule shortens it, older turns are summarised before it, or
it cannot be made to fit.
"""

SUMMARY_RULE: Final = "summarise"
"""The rule of a summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedLimit:
    """The first prompt of a run that reached a limit."""

    effect: LimitEffect
    kind: str
    """The kind of call."""
    rule: str
    """The step of the ladder; of a refusal, its code."""
    on: str
    """The layer or history view that it is applied to; empty for a refusal."""
    component: str | None
    """The component or section whose limit it was; None for that of the whole prompt."""
    tokens: int
    """What was measured."""
    limit: int | None
    """What it may have; None if the record does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardRun:
    """What a run came to."""

    tokens: tuple[int, ...]
    """Tokens of the largest prompt of each turn, before it was cut; 0 for a turn without a call."""
    reached: ReachedLimit | None
    """The limit that its last turn reached; None if it reached none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastBase:
    """The session that a run continues."""

    events: tuple[RecordedEvent, ...]
    """All its events."""
    state: SessionState
    """Its state without the turns that are open or wait: their answers are not known."""
    material: SessionMaterial
    blobs: Mapping[Digest, str]
    """The texts of its record, and those of the drawn turns."""
    installed: InstalledExtensions
    default_model: str
    """The model of profiles that say `default`."""
    latest_calls: Mapping[str, ContextAssembled]
    """The latest call of each kind."""

    @property
    def at(self) -> str:
        """The time of all drawn turns, which is that of the session's last event."""
        return self.events[-1].envelope.time


def run_forward(base: ForecastBase, draws: RunDraws, horizon: int) -> ForwardRun:
    """Continue a session by at most so many turns, until a prompt reaches a limit.

    Fewer turns are run where none is on record that could follow. Raises `Corrupt` if a text is not
    there, and `Refused` if a prompt cannot be made for another reason than its size.
    """
    run = _Run(base)
    while len(run.tokens) < horizon and run.reached is None:
        drawn = draws.draw_turn(run.state)
        if drawn is None:
            break
        run.play_turn(drawn)
    return ForwardRun(tokens=tuple(run.tokens), reached=run.reached)


@dataclass(slots=True)
class _Run:
    base: ForecastBase
    tokens: list[int] = field(default_factory=list[int])
    reached: ReachedLimit | None = None
    replay: SessionReplay = field(init=False)

    def __post_init__(self) -> None:
        base = self.base
        self.replay = SessionReplay(
            blobs=base.blobs,
            installed=base.installed,
            state=base.state,
            events=[*base.events],
        )

    @property
    def state(self) -> SessionState:
        return self.replay.state or self.base.state

    def play_turn(self, turn: DrawnTurn) -> None:
        """Add a turn, and set `reached` at the first of its prompts that reaches a limit."""
        self.tokens.append(0)
        drawn = build_drawn_events(self.state, turn, self.base.at)
        last_calls = {
            each.event.manifest.kind: place
            for place, each in enumerate(drawn)
            if isinstance(each.event, ContextAssembled)
        }
        inputs: Mapping[str, JsonValue] = {}
        for place, recorded in enumerate(drawn):
            event = recorded.event
            if isinstance(event, TurnSubmitted):
                inputs = collect_turn_inputs(event, self.base.blobs)
            if isinstance(event, ContextAssembled) and self.state.open is not None:
                is_last = place in last_calls.values()
                recorded = self._assemble_call(recorded, event, inputs, is_last=is_last)  # noqa: PLW2901
            if self.reached is not None:
                return
            self.replay.apply_event(recorded)

    def _assemble_call(
        self,
        recorded: RecordedEvent,
        drawn: ContextAssembled,
        inputs: Mapping[str, JsonValue],
        *,
        is_last: bool,
    ) -> RecordedEvent:
        """Return the event with the manifest of the session's latest call of the kind.

        What that call's lasting cuts left out, a later call leaves out too.
        """
        call = self._create_call(drawn, inputs)
        if is_last or has_summaries(self.base.material):
            planned = self._plan_call(call)
            self.reached = self._find_summary(planned)
            if self.reached is None and is_last:
                self._fit_prompt(planned)
        latest = self.base.latest_calls.get(call.kind, drawn)
        changes = {"manifest": latest.manifest, "model": call.model}
        return replace(recorded, event=drawn.model_copy(update=changes))

    def _create_call(self, drawn: ContextAssembled, inputs: Mapping[str, JsonValue]) -> PromptCall:
        base, state = self.base, self.state
        kind = base.material.find_call_kind(state)
        latest = base.latest_calls.get(kind, drawn)
        call = PromptCall(
            kind=kind,
            model=base.material.resolve_model(state, base.default_model),
            at=base.at,
            inputs=inputs,
            output_request=find_output_request(latest.manifest),
            dialect=latest.manifest.dialect or PLAIN_DIALECT,
        )
        gathered = gather_segments(
            material=base.material,
            state=state,
            call=call,
            manifests=(drawn.manifest, latest.manifest),
            blobs=base.blobs,
        )
        return replace(call, gathered=gathered)

    def _plan_call(self, call: PromptCall) -> PlannedPrompt:
        material, state = self.base.material, self.state
        if find_missing_turns(material, state, call):
            whole = self.replay.get_whole_state()
            state = replace(state, turns=whole.turns, earlier=whole.earlier, reach=whole.reach)
        unfilled = plan_prompt(material, state, call)
        return fill_prompt(unfilled, self.replay.collect_texts(state, call))

    def _find_summary(self, planned: PlannedPrompt) -> ReachedLimit | None:
        """Return the summary that is due before the call, as a worker finds it."""
        material, state = self.base.material, planned.unfilled.state
        call = planned.unfilled.call
        context_tokens = call.dialect.context_tokens
        for candidate in list_summary_candidates(
            material=material,
            state=state,
            at=call.at,
            inputs=call.inputs,
            model=call.model,
            context_tokens=context_tokens,
        ):
            if not candidate.list_refs():
                continue
            prompt = planned.unfitted_prompt if candidate.is_limited_by_next_call else None
            if due := find_due_summary(
                candidate=candidate,
                material=material,
                state=state,
                texts=planned.texts,
                model=call.model,
                context_tokens=context_tokens,
                prompt=prompt,
            ):
                return _describe_summary(due, candidate.kind)
        return None

    def _fit_prompt(self, planned: PlannedPrompt) -> None:
        """Fit a prompt to its budget, and note its size and what a ladder did to it."""
        kind, fitting = planned.unfilled.call.kind, planned.fitting
        plan, steps = planned.plan, tuple[AppliedTrimStep, ...]()
        if fitting is not None:
            try:
                plan, steps = fit_plan(planned.plan, fitting)
            except BudgetExceeded as exceeded:
                self._note_tokens(exceeded.tokens)
                self.reached = _find_refusal(planned, kind)
                return
        new_steps = [each for each in steps if each.since is None]
        cut = sum(each.before - each.after for each in new_steps)
        beside = sum(part.tokens for part in planned.beside)
        self._note_tokens(measure_plan(plan, planned.limits.counting, beside).tokens + cut)
        if new_steps and fitting is not None:
            first = new_steps[0]
            component = first.component or first.section
            self.reached = ReachedLimit(
                effect="cut",
                kind=kind,
                rule=first.step,
                on=first.on,
                component=component,
                tokens=first.before,
                limit=None if component else fitting.limit,
            )

    def _note_tokens(self, tokens: int) -> None:
        self.tokens[-1] = max(self.tokens[-1], tokens)


def _describe_summary(due: SummaryBegun, kind: str) -> ReachedLimit:
    trigger = due.trigger
    return ReachedLimit(
        effect="summary",
        kind=kind,
        rule=SUMMARY_RULE,
        on=due.view,
        component="history" if trigger and trigger.of != "prompt" else None,
        tokens=trigger.tokens if trigger else 0,
        limit=trigger.limit if trigger else None,
    )


def _find_refusal(planned: PlannedPrompt, kind: str) -> ReachedLimit | None:
    """Return the refusal of a prompt, or that it lacks tools; None if it fits otherwise."""
    try:
        steps = fit_prompt(planned).manifest.steps
    except BudgetExceeded as exceeded:
        return ReachedLimit(
            effect="refused",
            kind=kind,
            rule=exceeded.code,
            on="",
            component=exceeded.of.component or exceeded.of.section,
            tokens=exceeded.tokens,
            limit=exceeded.limit,
        )
    first = next((each for each in steps if each.step == LEAVE_OUT_TOOL_STEP), None)
    if first is None or planned.fitting is None:
        return None
    return ReachedLimit(
        effect="cut",
        kind=kind,
        rule=first.step,
        on=first.on,
        component=first.component,
        tokens=first.before,
        limit=None if first.component else planned.fitting.limit,
    )
