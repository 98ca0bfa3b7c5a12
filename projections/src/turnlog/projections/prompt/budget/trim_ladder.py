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
from typing import Final, NamedTuple, assert_never

from pydantic import JsonValue

from turnlog.events.model.manifest import AppliedTrimStep
from turnlog.projections.blueprint.schema.budget_specs import (
    BudgetShare,
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
    LadderStep,
    LastingAction,
    LimitHits,
    LowerSegmentTier,
    RegisteredStep,
    ReplaceSegments,
    SummariseHistory,
    TrimLayer,
    compute_share,
    resolve_limit,
)
from turnlog.projections.blueprint.schema.layer_specs import (
    HISTORY_COMPONENT,
    MEDIA_LAYER,
    REASONING_COMPONENT,
    REASONING_LAYER,
    TOOL_RESULTS_LAYER,
)
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.assembly_inputs import (
    ASSEMBLER_VERSION,
    EarlierCall,
    has_condensed_arguments,
    has_lasting_cuts,
)
from turnlog.projections.prompt.budget.budget_error import (
    WHOLE_PROMPT,
    BudgetExceeded,
    BudgetScope,
    measure_layers,
)
from turnlog.projections.prompt.budget.call_limits import (
    resolve_largest_prompt,
    resolve_prompt_limit,
)
from turnlog.projections.prompt.budget.lasting_cuts import (
    DROP_IMAGES_RULE,
    DROP_REASONING_STEP,
    complete_cut,
    count_excess_turns,
    deepen_cut,
    drop_turns,
    find_last_cut_turn,
    find_lasting_cut,
    keep_cut,
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
from turnlog.projections.prompt.budget.plan_sizes import (
    PlanSize,
    measure_component,
    measure_plan,
    measure_section,
)
from turnlog.projections.prompt.history.history_condenser import condense_slot_repeats
from turnlog.projections.prompt.history.planned_history import PlannedHistory
from turnlog.projections.prompt.prompt_plan import (
    PlannedMessage,
    PromptPlan,
    condense_longest_arguments,
    format_message,
    leave_out_oldest_images,
    leave_out_oldest_reasoning,
    update_layer,
    update_view,
)
from turnlog.projections.prompt.sources.layer_content import ApplyRegisteredStep
from turnlog.projections.prompt.sources.tool_sources import condense_tools
from turnlog.projections.session.token_counts import ModelLimit

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
    return drop_turns(slot, count_excess_turns(slot, slot.count_older(step.keep_messages), over))


MeasurePlan = Callable[[PromptPlan], PlanSize]


class MeasuredPlan(NamedTuple):
    """A plan with its size, by what one ladder measures."""

    plan: PromptPlan
    size: PlanSize


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
    """What the model is known to take, by its provider or by a file of dialects."""
    assembler: int = ASSEMBLER_VERSION
    """The version of the assembler whose steps are taken."""
    earlier: EarlierCall | None = None
    """The previous call of the kind, whose lasting cuts are kept."""

    @property
    def limit(self) -> int:
        """The token limit of the whole prompt."""
        return resolve_prompt_limit(self.budget, self.model_limit, self.inputs)

    @property
    def largest(self) -> int:
        """The limit of a prompt that the ladder cannot make short enough."""
        return resolve_largest_prompt(self.budget, self.model_limit, self.inputs)

    def find_share(self, step: LadderStep) -> BudgetShare | None:
        """Return the share of its limit that a lasting cut goes to; None for any other step."""
        return step.to if has_lasting_cuts(self.assembler) else None

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
    plan, steps = _keep_lasting_cuts(plan, run, fitting)
    size = run.measure(plan)
    if size.tokens > run.limit and run.scope in _REASONING_SCOPES:
        whole, before = plan, size
        plan = leave_out_oldest_reasoning(plan, size.tokens - _find_reasoning_goal(run, fitting))
        size = run.measure(plan)
        if size != before:
            through = find_last_cut_turn(whole, plan) if _has_lasting_steps(run, fitting) else None
            step_record = _build_step_record(
                word=DROP_REASONING_STEP,
                on=REASONING_LAYER,
                run=run,
                before=before,
                after=size,
                through=through,
            )
            steps.append(step_record)
    for step in run.ladder if size.tokens > run.limit else ():
        for on in list_step_targets(plan, step.action):
            whole, before = plan, size
            if size.tokens <= run.limit:
                break
            plan, size = _take_step(
                whole=MeasuredPlan(plan, size), step=step, on=on, run=run, fitting=fitting
            )
            if size != before:
                is_lasting = fitting.find_share(step) is not None
                steps.append(
                    _build_step_record(
                        word=step.action_name,
                        on=on,
                        run=run,
                        before=before,
                        after=size,
                        through=find_last_cut_turn(whole, plan) if is_lasting else None,
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


def _keep_lasting_cuts(
    plan: PromptPlan, run: LadderRun, fitting: BudgetContext
) -> tuple[PromptPlan, list[AppliedTrimStep]]:
    """Repeat the lasting cuts of the earlier call, and return them as steps."""
    steps: list[AppliedTrimStep] = []
    if fitting.earlier is None or not _has_lasting_steps(run, fitting):
        return plan, steps
    size = run.measure(plan)
    for word, on, action in _list_lasting_actions(plan, run, fitting):
        cut = find_lasting_cut(
            earlier=fitting.earlier, step=word, on=on, scope=run.scope, limit=run.limit
        )
        if cut is None:
            continue
        shorter = keep_cut(plan=plan, cut=cut, on=on, action=action, counting=fitting.counting)
        less = run.measure(shorter)
        if less.characters < size.characters:
            steps.append(
                _build_step_record(
                    word=word,
                    on=on,
                    run=run,
                    before=size,
                    after=less,
                    through=cut.through,
                    since=cut.call,
                )
            )
            plan, size = shorter, less
    return plan, steps


def _has_lasting_steps(run: LadderRun, fitting: BudgetContext) -> bool:
    return any(map(fitting.find_share, run.ladder))


def _list_lasting_actions(
    plan: PromptPlan, run: LadderRun, fitting: BudgetContext
) -> Iterator[tuple[str, str, LastingAction | None]]:
    """Yield what may have made a lasting cut: the name, the target, and the action of each step.

    The reasoning before replies, which goes before the first step, has no action.
    """
    if run.scope in _REASONING_SCOPES:
        yield DROP_REASONING_STEP, REASONING_LAYER, None
    for step in run.ladder:
        action = step.action
        if fitting.find_share(step) and isinstance(action, LastingAction):
            for on in list_step_targets(plan, action):
                yield step.action_name, on, action


def _find_reasoning_goal(run: LadderRun, fitting: BudgetContext) -> int:
    """Return how far the reasoning before replies is left out: as far as the first lasting cut."""
    share = next(filter(None, map(fitting.find_share, run.ladder)), None)
    return compute_share(share, run.limit) if share else run.limit


def _take_step(
    whole: MeasuredPlan, step: LadderStep, on: str, run: LadderRun, fitting: BudgetContext
) -> MeasuredPlan:
    """Take a step until the prompt fits or nothing changes; a lasting cut then goes further."""
    action = step.action
    shorter = _shorten_to(
        whole,
        run.limit,
        run.measure,
        lambda plan, over: apply_step(plan=plan, action=action, on=on, over=over, fitting=fitting),
    )
    share = fitting.find_share(step)
    if share is None or not isinstance(action, LastingAction):
        return shorter
    shorter = _shorten_to(
        shorter,
        compute_share(share, run.limit),
        run.measure,
        lambda plan, over: deepen_cut(
            plan=plan, over=over, action=action, on=on, counting=fitting.counting
        ),
    )
    completed = complete_cut(whole.plan, shorter.plan, action, fitting.counting)
    return MeasuredPlan(completed, run.measure(completed))


def _shorten_to(
    whole: MeasuredPlan,
    goal: int,
    measure: MeasurePlan,
    shorten: Callable[[PromptPlan, int], PromptPlan],
) -> MeasuredPlan:
    """Shorten a plan by so many excess tokens at a time, until it has no more than the goal."""
    plan, size = whole
    while size.tokens > goal:
        shorter = shorten(plan, size.tokens - goal)
        less = measure(shorter)
        # A step that does not shorten is exhausted. This also guarantees termination.
        if less.characters >= size.characters:
            break
        plan, size = shorter, less
    return MeasuredPlan(plan, size)


def _build_step_record(
    word: str,
    on: str,
    run: LadderRun,
    before: PlanSize,
    after: PlanSize,
    through: int | None = None,
    since: str | None = None,
) -> AppliedTrimStep:
    """Return what the manifest says of a step; `through` of one whose cut lasts."""
    return AppliedTrimStep(
        step=word,
        on=on,
        section=run.scope.section,
        component=run.scope.component,
        before=before.tokens,
        after=after.tokens,
        limit=None if through is None else run.limit,
        through=through,
        since=since,
    )
