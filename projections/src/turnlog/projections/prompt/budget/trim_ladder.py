"""Apply the trim ladders of a budget to a plan.

`apply_step` is the one place that knows what each step of a blueprint does. It is given a plan and
the number of excess tokens and returns a shorter plan, or the same plan if the step is exhausted. A
registered step of a package sees one layer and nothing else of the prompt.

Steps are taken in the author's order, and each is repeated until it shortens nothing any more.
Before them goes what no text of a turn is shortened for: the reasoning before earlier replies. A
prompt that fits is returned unchanged. One that cannot be made to fit is refused with the sizes of
what is in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, assert_never

from pydantic import JsonValue

from turnlog.events.model.manifest import AppliedTrimStep
from turnlog.projections.blueprint.schema.budget_specs import (
    BudgetSpec,
    CompressLayer,
    CondenseRepeats,
    CondenseResults,
    CondenseToolList,
    DropImages,
    DropLayer,
    DropLowestPriority,
    DropOldestPairs,
    HistoryAction,
    Ladder,
    LadderAction,
    LimitHits,
    LowerSegmentTier,
    RegisteredStep,
    ReplaceSegments,
    SummariseHistory,
    TrimLayer,
    resolve_limit,
)
from turnlog.projections.blueprint.schema.layer_specs import (
    HISTORY_COMPONENT,
    MEDIA_COMPONENT,
    MEDIA_LAYER,
    REASONING_COMPONENT,
    REASONING_LAYER,
    ROUNDS_COMPONENT,
    TOOL_RESULTS_LAYER,
)
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.assembly_inputs import ASSEMBLER_VERSION, has_condensed_arguments
from turnlog.projections.prompt.budget.budget_error import (
    WHOLE_PROMPT,
    BudgetExceeded,
    BudgetScope,
    measure_layers,
)
from turnlog.projections.prompt.budget.layer_trim_steps import (
    compress_block,
    condense_results,
    drop_block,
    drop_lowest,
    has_hits,
    limit_hits,
    lower_tier,
    replace_segments,
    select_sentence_rule,
    trim_block,
)
from turnlog.projections.prompt.history.excluded_turns import ExcludedTurns, merge_excluded
from turnlog.projections.prompt.history.history_condenser import condense_slot_repeats
from turnlog.projections.prompt.history.planned_history import PlannedHistory
from turnlog.projections.prompt.prompt_plan import (
    PlannedMessage,
    PromptPlan,
    condense_longest_arguments,
    format_message,
    iterate_media,
    leave_out_oldest_images,
    leave_out_oldest_reasoning,
    place_pieces,
    update_layer,
    update_view,
)
from turnlog.projections.prompt.sources.layer_content import ApplyRegisteredStep
from turnlog.projections.prompt.sources.tool_sources import condense_tools
from turnlog.projections.session.token_counts import ModelLimit

DROP_IMAGES_RULE: Final = "drop_images"
"""The rule of a picture that the step of this name left out."""

DROP_REASONING_STEP: Final = "drop_reasoning"
"""The name of the step that leaves out the reasoning before earlier replies."""

_REASONING_SCOPES: Final = (WHOLE_PROMPT, BudgetScope(component=REASONING_COMPONENT))
"""The limits that this reasoning counts under."""


def list_step_targets(plan: PromptPlan, action: LadderAction) -> tuple[str, ...]:
    """Return the layers or views that a step applies to: the named one, or all of its kind."""
    if isinstance(action, HistoryAction):
        views = [slot.view for slot in plan if isinstance(slot, PlannedHistory)]
        return tuple(views) if action.history is None else (action.history,)
    if isinstance(action, DropImages):
        return (MEDIA_LAYER,)
    if action.layer is not None:
        return (action.layer,)
    blocks = [block for slot in plan if isinstance(slot, PlannedMessage) for block in slot.blocks]
    if isinstance(action, LimitHits):
        return tuple(block.layer for block in blocks if has_hits(block))
    return tuple(block.layer for block in blocks if condense_tools(block) is not block)


def apply_step(
    plan: PromptPlan, action: LadderAction, on: str, over: int, fitting: BudgetContext
) -> PromptPlan:
    """Take a step once, on a layer or a view."""
    match action:
        case TrimLayer():
            find_end = select_sentence_rule(fitting.assembler)
            trim = partial(trim_block, step=action, inputs=fitting.inputs, find_end=find_end)
            return update_layer(plan, on, trim)
        case CompressLayer():
            compress = partial(
                compress_block,
                step=action,
                inputs=fitting.inputs,
                over=over,
                find_end=select_sentence_rule(fitting.assembler),
            )
            return update_layer(plan, on, compress)
        case LowerSegmentTier():
            return update_layer(plan, on, lower_tier)
        case DropLowestPriority():
            return update_layer(plan, on, partial(drop_lowest, step=action))
        case ReplaceSegments():
            return update_layer(plan, on, partial(replace_segments, step=action))
        case DropLayer():
            return update_layer(plan, on, drop_block)
        case RegisteredStep(name=name, with_=options):
            step = fitting.registered[name]
            return update_layer(plan, on, lambda block: step(block, options))
        case CondenseToolList():
            return update_layer(plan, on, condense_tools)
        case CondenseResults():
            return _condense_longest_result(plan, on, action, fitting.assembler)
        case LimitHits():
            return update_layer(plan, on, partial(limit_hits, step=action))
        case DropImages():
            return leave_out_oldest_images(plan, DROP_IMAGES_RULE, fitting.counting, over)
        case DropOldestPairs():
            return update_view(plan, on, partial(_drop_oldest_turns, step=action, over=over))
        case CondenseRepeats():
            return update_view(
                plan,
                on,
                partial(condense_slot_repeats, counting=fitting.counting, by="condense_repeats"),
            )
        case SummariseHistory():
            return plan
        case _ as never:
            assert_never(never)


def _condense_longest_result(
    plan: PromptPlan, on: str, step: CondenseResults, assembler: int
) -> PromptPlan:
    """Condense the longest result of a layer; the results of tool rounds are a message each.

    With them go the arguments of earlier rounds: what saves most is condensed first.
    """
    condense = partial(condense_results, step=step)
    if on != TOOL_RESULTS_LAYER:
        return update_layer(plan, on, condense)
    shorter = [
        (*plan[:place], *update_layer((slot,), on, condense), *plan[place + 1 :])
        for place, slot in enumerate(plan)
        if isinstance(slot, PlannedMessage) and slot.tool_call_id is not None
    ]
    form = step.to
    if form != "nothing" and has_condensed_arguments(assembler):
        shorter.append(condense_longest_arguments(plan, form))
    return min((plan, *shorter), key=_count_characters)


def _count_characters(plan: PromptPlan) -> int:
    messages = [slot for slot in plan if isinstance(slot, PlannedMessage)]
    calls = sum(len(call.text) for slot in messages for call in slot.tool_calls)
    return calls + sum(len(format_message(slot)) for slot in messages)


def _drop_oldest_turns(slot: PlannedHistory, step: DropOldestPairs, over: int) -> PlannedHistory:
    """Drop as many of the oldest turns as save `over` tokens, and at last the summary."""
    if slot.summary and not slot.exchanges:
        return replace(slot, summary=replace(slot.summary, included=False))
    dropped: list[ExcludedTurns] = []
    for exchange in slot.exchanges[: slot.count_older(step.keep_messages)]:
        if over <= 0:
            break
        dropped.append(ExcludedTurns(exchange.turn, exchange.last_turn, "drop_oldest_pairs"))
        over -= exchange.all_tokens
    left_out = merge_excluded((*slot.left_out, *dropped))
    return replace(slot, exchanges=slot.exchanges[len(dropped) :], left_out=left_out)


@dataclass(frozen=True, slots=True)
class PlanSize:
    """The size of a plan or a part of it."""

    tokens: int
    characters: int


MeasurePlan = Callable[[PromptPlan], PlanSize]


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderRun:
    """One ladder to apply: what it measures, and its limit."""

    ladder: Ladder
    measure: MeasurePlan
    limit: int
    scope: BudgetScope = WHOLE_PROMPT
    is_soft: bool = False
    """Whether an exceeded limit is left to a larger one: of the whole prompt, or its overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetContext:
    """What a plan is fitted with, besides the plan."""

    budget: BudgetSpec
    counting: TokenCounter
    inputs: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    beside: Mapping[str, int] = field(default_factory=dict[str, int])
    """Tokens of what is sent beside the messages, such as tools, by component."""
    registered: Mapping[str, ApplyRegisteredStep] = field(
        default_factory=dict[str, ApplyRegisteredStep]
    )
    """Trim steps that packages register, by name."""
    model_limit: ModelLimit | None = None
    """What the model is known to take, since its provider refused a longer prompt."""
    assembler: int = ASSEMBLER_VERSION
    """The version of the assembler whose steps are taken."""

    @property
    def limit(self) -> int:
        """The token limit of the whole prompt."""
        tokens = resolve_limit(self.budget.tokens, self.inputs)
        return min(tokens, self.model_limit.tokens) if self.model_limit else tokens

    @property
    def largest(self) -> int:
        """The limit of a prompt that the ladder cannot make short enough."""
        tokens = self.budget.resolve_largest(self.inputs)
        return min(tokens, self.model_limit.largest) if self.model_limit else tokens

    def find_limit(self, tokens: int) -> int:
        """Return the limit that a prompt of this many tokens was held to: the larger if needed."""
        return self.limit if tokens <= self.limit else self.largest

    def is_lowered(self, limit: int) -> bool:
        """Return whether a limit of the whole prompt is the model's, and not the blueprint's."""
        own = {resolve_limit(self.budget.tokens, self.inputs)}
        return limit not in own | {self.budget.resolve_largest(self.inputs)}


@dataclass(frozen=True, slots=True)
class UnfittedPrompt:
    """A plan with a budget, before any step."""

    plan: PromptPlan
    fitting: BudgetContext


def fit_plan(
    plan: PromptPlan, fitting: BudgetContext
) -> tuple[PromptPlan, tuple[AppliedTrimStep, ...]]:
    """Shorten a plan to its limits and return it with the steps that were taken.

    Sections come first, then components, then the whole prompt. Raises `BudgetExceeded` if the
    ladders do not suffice.
    """
    taken_steps: list[AppliedTrimStep] = []
    for run in _list_ladder_runs(fitting):
        plan, steps = _apply_ladder(plan, run, fitting)
        taken_steps += steps
    return plan, tuple(taken_steps)


def _list_ladder_runs(fitting: BudgetContext) -> list[LadderRun]:
    budget, counting, beside = fitting.budget, fitting.counting, fitting.beside
    sections = [
        LadderRun(
            ladder=section.ladder,
            measure=partial(measure_section, layer=layer, counting=counting),
            limit=resolve_limit(section.tokens, fitting.inputs),
            scope=BudgetScope(section=layer),
        )
        for layer, section in budget.sections.items()
    ]
    components = [
        LadderRun(
            ladder=component.ladder,
            measure=partial(
                measure_component, component=name, counting=counting, beside=beside.get(name, 0)
            ),
            limit=resolve_limit(component.tokens, fitting.inputs),
            scope=BudgetScope(component=name),
            is_soft=not component.fixed,
        )
        for name, component in budget.components.items()
    ]
    return [*sections, *components, *_list_whole_runs(fitting)]


def _list_whole_runs(fitting: BudgetContext) -> Iterator[LadderRun]:
    budget, beside = fitting.budget, sum(fitting.beside.values())
    measure = partial(measure_plan, counting=fitting.counting, beside=beside)
    has_larger = budget.overflow is not None or fitting.largest > fitting.limit
    yield LadderRun(ladder=budget.ladder, measure=measure, limit=fitting.limit, is_soft=has_larger)
    if has_larger:
        ladder = budget.overflow.ladder if budget.overflow else ()
        yield LadderRun(ladder=ladder, measure=measure, limit=fitting.largest)


def find_steps_before_summary(ladder: Ladder, view: str) -> Ladder | None:
    """Return the steps before the one that has a view summarised; None if there is none."""
    places = (
        place
        for place, step in enumerate(ladder)
        if isinstance(step.action, SummariseHistory) and step.target in {None, view}
    )
    place = next(places, None)
    return None if place is None else ladder[:place]


def apply_steps_before_summary(
    slot: PlannedHistory, fitting: BudgetContext
) -> tuple[PlannedHistory, tuple[AppliedTrimStep, ...]]:
    """Return a view after the steps that its component lists before its summary, and the steps."""
    component = fitting.budget.components.get(HISTORY_COMPONENT)
    before = find_steps_before_summary(component.ladder, slot.view) if component else None
    if component is None or not before:
        return slot, ()
    measure = partial(measure_component, component=HISTORY_COMPONENT, counting=fitting.counting)
    limit = resolve_limit(component.tokens, fitting.inputs)
    run = LadderRun(
        ladder=before,
        measure=measure,
        limit=limit,
        scope=BudgetScope(component=HISTORY_COMPONENT),
        is_soft=True,
    )
    (shortened,), steps = _apply_ladder((slot,), run, fitting)
    return (shortened if isinstance(shortened, PlannedHistory) else slot), tuple(steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """A prompt at the ladder step that has a view summarised, which is too long there."""

    plan: PromptPlan
    """The prompt after the steps before that one."""
    tokens: int
    limit: int
    scope: BudgetScope
    steps: tuple[AppliedTrimStep, ...]
    """The steps of that ladder that were taken."""


def find_summary_requests(prompt: UnfittedPrompt, view: str) -> Iterator[SummaryRequest]:
    """Yield the places where the ladders of a prompt have a view summarised, in their order.

    After such a place the ladders go on as if no summary could be made.
    """
    plan, fitting = prompt.plan, prompt.fitting
    for run in _list_ladder_runs(fitting):
        before = find_steps_before_summary(run.ladder, view)
        if before is not None:
            up_to_it = replace(run, ladder=before, is_soft=True)
            shortened, steps = _apply_ladder(plan, up_to_it, fitting)
            tokens = run.measure(shortened).tokens
            if tokens > run.limit:
                yield SummaryRequest(
                    plan=shortened,
                    tokens=tokens,
                    limit=run.limit,
                    scope=run.scope,
                    steps=tuple(steps),
                )
        plan, _ = _apply_ladder(plan, run, fitting)


def _apply_ladder(
    plan: PromptPlan, run: LadderRun, fitting: BudgetContext
) -> tuple[PromptPlan, list[AppliedTrimStep]]:
    size = run.measure(plan)
    steps: list[AppliedTrimStep] = []
    if size.tokens > run.limit and run.scope in _REASONING_SCOPES:
        plan = leave_out_oldest_reasoning(plan, size.tokens - run.limit)
        before, size = size, run.measure(plan)
        if size != before:
            step_record = _build_step_record(
                word=DROP_REASONING_STEP, on=REASONING_LAYER, run=run, before=before, after=size
            )
            steps.append(step_record)
    for step in run.ladder if size.tokens > run.limit else ():
        for on in list_step_targets(plan, step.action):
            before = size
            while size.tokens > run.limit:
                over = size.tokens - run.limit
                shorter = apply_step(
                    plan=plan, action=step.action, on=on, over=over, fitting=fitting
                )
                less = run.measure(shorter)
                # A step that does not shorten is exhausted. This also guarantees termination.
                if less.characters >= size.characters:
                    break
                plan, size = shorter, less
            if size != before:
                steps.append(
                    _build_step_record(
                        word=step.action_name, on=on, run=run, before=before, after=size
                    )
                )
    if size.tokens > run.limit and not run.is_soft:
        raise BudgetExceeded(
            tokens=size.tokens,
            limit=run.limit,
            sizes=measure_layers(plan, run.scope, fitting.counting, fitting.beside),
            of=run.scope,
            factor=fitting.counting.counter.factor,
            is_lowered=run.scope == WHOLE_PROMPT and fitting.is_lowered(run.limit),
        )
    return plan, steps


def _build_step_record(
    word: str, on: str, run: LadderRun, before: PlanSize, after: PlanSize
) -> AppliedTrimStep:
    return AppliedTrimStep(
        step=word,
        on=on,
        section=run.scope.section,
        component=run.scope.component,
        before=before.tokens,
        after=after.tokens,
    )


def measure_plan(plan: PromptPlan, counting: TokenCounter, beside: int) -> PlanSize:
    """Return the size of the whole prompt."""
    tokens, characters = beside, 0
    for slot in plan:
        if isinstance(slot, PlannedHistory):
            tokens += slot.tokens + slot.reasoning_tokens
            characters += slot.characters + sum(map(len, slot.reasoning_texts))
        else:
            calls = (each.text for each in slot.tool_calls)
            for text in (format_message(slot), *calls, *slot.reasoning_texts):
                tokens += counting.count_tokens(text)
                characters += len(text)
    return _add_media(plan, PlanSize(tokens, characters))


def _add_media(plan: PromptPlan, size: PlanSize) -> PlanSize:
    media = list(iterate_media(plan))
    if not media:
        return size
    return PlanSize(
        size.tokens + sum(each.tokens for each in media),
        size.characters + sum(each.characters for each in media),
    )


def measure_section(plan: PromptPlan, layer: str, counting: TokenCounter) -> PlanSize:
    """Return the size of one layer, without delimiters."""
    blocks = (block for slot in plan if isinstance(slot, PlannedMessage) for block in slot.blocks)
    text = "".join([block.content for block in blocks if block.layer == layer])
    return PlanSize(counting.count_tokens(text), len(text))


def measure_component(
    plan: PromptPlan, component: str, counting: TokenCounter, beside: int = 0
) -> PlanSize:
    """Return the size of one component, delimiters and separators included.

    Each text is counted by itself, so that cutting one component does not lengthen another.
    """
    if component == MEDIA_COMPONENT:
        return _add_media(plan, PlanSize(beside, 0))
    tokens, characters = beside, 0
    for slot in plan:
        if isinstance(slot, PlannedMessage):
            texts = [each.text for each in place_pieces(slot) if each.block.component == component]
            if component == ROUNDS_COMPONENT:
                texts += [each.text for each in slot.tool_calls]
            if component == REASONING_COMPONENT:
                texts += slot.reasoning_texts
            tokens += sum(map(counting.count_tokens, texts))
            characters += sum(map(len, texts))
        elif component == HISTORY_COMPONENT:
            tokens += slot.tokens
            characters += slot.characters
        elif component == REASONING_COMPONENT:
            tokens += slot.reasoning_tokens
            characters += sum(map(len, slot.reasoning_texts))
    return PlanSize(tokens, characters)
