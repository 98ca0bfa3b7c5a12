"""Whatever a provider counts, prompts keep to their budget by its own measure."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.support.generators.session_strategies import fewer_examples
from tests.support.sessions.prompt_assembly import (
    REPLY_CALL,
    fetch_prompt_texts,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.events.model.attempt_figures import TokenUsage
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptFault,
    AttemptStarted,
    ContextAssembled,
    ContextOverflow,
)
from turnlog.projections.prompt.assemble import assemble, plan_prompt
from turnlog.projections.prompt.assembly_inputs import ASSEMBLER_VERSION, AssembledPrompt
from turnlog.projections.prompt.budget.budget_error import BudgetExceeded
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import CompleteTurn, FixContext
from turnlog.projections.session.rules.attempt_events import UNKNOWN_USAGE
from turnlog.projections.testing import (
    SAMPLE_SPENT,
    SessionScenario,
    claim_turn,
    complete_turn,
    get_attempt,
    submit_turn,
)

BUDGET = 400

UNCORRECTED = 5
"""The last version of the assembler that leaves its own counts as they are."""

BLUEPRINT = parse_blueprint(f"""\
blueprint: guide
version: 1
layers:
  base: {{file: base.md, keep: always}}
calls:
  reply:
    messages: [{{system: [base]}}, {{history: recent}}, {{user: [input]}}]
    budget: window
history: {{recent: {{}}}}
budget:
  window: {{tokens: {BUDGET}, ladder: [{{drop_oldest_pairs: {{}}}}]}}
profiles: {{chat: {{default: true, call: reply}}}}
""")

FILES = {"base": "Be brief."}

TEXTS = st.sampled_from(["word ", "是的。", "ครับ", "نعم ", "🙂"])

PLAYED = st.tuples(TEXTS, st.integers(1, 60), st.integers(1, 60), st.floats(0.2, 9))
"""A turn: its text, how often it is in question and reply, and the provider's count by ours."""


def assemble_call(session: SessionScenario, assembler: int) -> AssembledPrompt:
    call = replace(REPLY_CALL, assembler=assembler)
    plan = plan_prompt(SessionMaterial(blueprint=BLUEPRINT), session.opened_state, call)
    return assemble(plan, fetch_prompt_texts(plan.needs, session.events, FILES))


def record_prompt(session: SessionScenario) -> tuple[SessionScenario, AssembledPrompt]:
    prompt = assemble_call(session, ASSEMBLER_VERSION)
    fixed = FixContext(
        attempt=get_attempt(session.opened_state),
        model=REPLY_CALL.model,
        parameters={},
        manifest=prompt.manifest,
    )
    return session.apply_steps(fixed), prompt


def find_excess(session: SessionScenario) -> BudgetExceeded | None:
    try:
        assemble_call(session, ASSEMBLER_VERSION)
    except BudgetExceeded as over:
        return over
    return None


def complete_counted(session: SessionScenario, text: str, usage: TokenUsage) -> SessionScenario:
    spent = SAMPLE_SPENT.model_copy(update={"usage": usage})
    attempt = get_attempt(session.opened_state)
    return session.apply_steps(CompleteTurn(attempt=attempt, text=text, finish="stop", spent=spent))


@fewer_examples
@given(st.lists(PLAYED, min_size=1, max_size=6))
def test_corrected_prompt_never_exceeds_its_budget(
    turns: list[tuple[str, int, int, float]],
) -> None:
    session = open_with_blueprint(BLUEPRINT, FILES)
    for text, asked, said, factor in turns:
        session = session.apply_steps(submit_turn(text * asked), claim_turn())
        over = find_excess(session)
        if over is not None:
            assert sum(each.tokens for each in over.sizes) == over.tokens > over.limit
            return
        session, prompt = record_prompt(session)
        manifest = prompt.manifest
        assert sum(part.tokens for part in manifest.parts) == manifest.tokens <= BUDGET
        uncorrected = sum(-(-len(each.content) // 4) for each in prompt.request.messages)
        assert manifest.tokens >= uncorrected * manifest.counter.factor - 1e-6
        counted = TokenUsage(
            known="reported", input_tokens=round(uncorrected * factor), output_tokens=1
        )
        session = complete_counted(session, text * said, counted)


@fewer_examples
@given(st.lists(PLAYED, min_size=1, max_size=6), st.sampled_from(["estimated", "unknown"]))
def test_log_without_reported_usage_gives_uncorrected_prompts(
    turns: list[tuple[str, int, int, float]], known: str
) -> None:
    session = open_with_blueprint(BLUEPRINT, FILES)
    for text, asked, said, factor in turns:
        session = session.apply_steps(submit_turn(text * asked), claim_turn())
        before = assemble_call(session, UNCORRECTED)
        session, prompt = record_prompt(session)
        assert before.request == prompt.request
        assert before.manifest == prompt.manifest.model_copy(update={"assembler": UNCORRECTED})
        tokens = round(prompt.manifest.tokens * factor)
        usage = TokenUsage.model_validate({"known": known, "input_tokens": tokens})
        session = complete_counted(session, text * said, usage)


@fewer_examples
@given(PLAYED, st.integers(2, 6), st.sampled_from(["both", "tokens", "limit", "nothing"]))
def test_prompt_after_a_refusal_is_shorter_and_within_what_the_provider_named(
    played: tuple[str, int, int, float], turns: int, named: str
) -> None:
    text, asked, said, factor = played
    session = open_with_blueprint(BLUEPRINT, FILES)
    for _ in range(turns):
        session = session.apply_steps(submit_turn(text * asked), claim_turn())
        session, prompt = record_prompt(session)
        session = session.apply_steps(complete_turn(text * said))
    session = session.apply_steps(submit_turn(text * asked), claim_turn())
    session, prompt = record_prompt(session)
    tokens = max(2, round(prompt.manifest.tokens * factor))
    overflow = ContextOverflow(
        tokens=tokens if named in {"both", "tokens"} else None,
        limit=tokens - 1 if named in {"both", "limit"} else None,
    )
    session = refuse_prompt(session, overflow)
    if find_excess(session) is not None:
        return
    after = assemble_call(session, ASSEMBLER_VERSION)
    assert len(after.request.messages) <= len(prompt.request.messages)
    if factor > 1.1 and named == "both":
        assert after.manifest.tokens < tokens
    if len(after.request.messages) > 2:
        assert after.request != prompt.request


def refuse_prompt(session: SessionScenario, overflow: ContextOverflow) -> SessionScenario:
    attempt = get_attempt(session.opened_state)
    fault = AttemptFault(
        code="context_overflow", detail="too long", retryable=True, overflow=overflow
    )
    ended = AttemptEnded(
        turn=attempt.turn,
        call=attempt.call,
        attempt=attempt.attempt,
        outcome="failed",
        usage=UNKNOWN_USAGE.usage,
        cost=UNKNOWN_USAGE.cost,
        fault=fault,
    )
    started = AttemptStarted(
        turn=attempt.turn, call=attempt.call, attempt=attempt.attempt + 1, worker="w1"
    )
    assert isinstance(session.events[-1].event, ContextAssembled)
    return session.append_events(ended, started)
