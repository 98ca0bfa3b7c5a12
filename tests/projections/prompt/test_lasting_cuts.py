"""Trim steps with `to`: a full prompt is cut once, and what was cut stays out of the next calls."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from tests.support.sessions.prompt_assembly import (
    REPLY_CALL,
    assemble_next_prompt,
    build_blobs,
    fetch_prompt_texts,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.events.content import compute_digest
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.manifest import AppliedTrimStep, HistorySource, Manifest, RequestDialect
from turnlog.projections.audit.record.prompt_readback import read_prompt
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.prompt.assemble import assemble, plan_prompt
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt, PromptCall
from turnlog.projections.prompt.request_dialect import RENDERING_VERSION
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import (
    CompleteTurn,
    ExcludeTurn,
    FixContext,
    RestoreTurn,
    SubmitTurn,
)
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.projections.testing import (
    SAMPLE_SPENT,
    CommandOrFactory,
    SessionScenario,
    claim_turn,
    get_attempt,
    submit_turn,
)

WRITTEN = """\
blueprint: guide
version: 1
layers:
  persona: {file: persona.md}
calls:
  reply: {messages: [{system: [persona]}, {history: recent}, {user: [input]}], budget: window}
history: {recent: {}}
budget: {window: {tokens: 200, counter: {chars_per_token: 1}, ladder: [STEPS]}}
profiles: {chat: {default: true, call: reply}}
"""

FILES = {"persona": "Be brief."}

PLAIN_STEP = "drop_oldest_pairs: {}"

LASTING_STEP = "drop_oldest_pairs: {to: 50%}"

REPLY = "r" * 10

PICTURE = b"\x89PNG picture"


def write_blueprint(*steps: str, limits: str = "tokens: 200") -> Blueprint:
    text = WRITTEN.replace("tokens: 200", limits)
    return parse_blueprint(text.replace("STEPS", ", ".join(steps or (LASTING_STEP,))))


@dataclass(frozen=True, slots=True)
class RecordedTalk:
    """A session at whose limit every prompt was recorded."""

    blueprint: Blueprint = field(default_factory=write_blueprint)
    session: SessionScenario | None = None
    prompts: tuple[AssembledPrompt, ...] = ()

    def run_turn(
        self,
        asked: CommandOrFactory | None = None,
        reply: str = REPLY,
        call: PromptCall = REPLY_CALL,
        reasoning: str = "",
    ) -> RecordedTalk:
        """Ask in ten characters unless told otherwise, fix the prompt and answer."""
        question = submit_turn(f"{len(self.prompts) + 1:010}")
        claimed = self.opened.apply_steps(asked or question, claim_turn())
        prompt = assemble_next_prompt(claimed, self.blueprint, FILES, call)
        attempt = get_attempt(claimed.opened_state)
        answered = claimed.apply_steps(
            FixContext(attempt=attempt, model=call.model, parameters={}, manifest=prompt.manifest),
            CompleteTurn(
                attempt=attempt,
                text=reply,
                finish="stop",
                spent=SAMPLE_SPENT,
                reasoning=reasoning,
            ),
        )
        return replace(self, session=answered, prompts=(*self.prompts, prompt))

    def run_turns(self, count: int) -> RecordedTalk:
        """Run turns of twenty characters each."""
        talk = self
        for _ in range(count):
            talk = talk.run_turn()
        return talk

    def apply_steps(self, *steps: CommandOrFactory) -> RecordedTalk:
        """Let something else happen."""
        return replace(self, session=self.opened.apply_steps(*steps))

    def use_blueprint(self, blueprint: Blueprint) -> RecordedTalk:
        """Go on by another blueprint."""
        return replace(self, blueprint=blueprint)

    @property
    def opened(self) -> SessionScenario:
        """The session so far."""
        return self.session or open_with_blueprint(self.blueprint, FILES)

    @property
    def last(self) -> Manifest:
        """The manifest of the latest prompt."""
        return self.prompts[-1].manifest


def find_first_turn(manifest: Manifest) -> int:
    """Return the first turn that a prompt shows; 0 if it shows none."""
    runs = (part.source for part in manifest.parts if part.is_included)
    return min((run.first for run in runs if isinstance(run, HistorySource)), default=0)


def list_first_turns(talk: RecordedTalk) -> list[int]:
    return [find_first_turn(prompt.manifest) for prompt in talk.prompts]


def count_breaks(talk: RecordedTalk) -> int:
    prefixes = [prompt.manifest.prefix for prompt in talk.prompts]
    return sum(each is not None and each.ended_by is not None for each in prefixes)


def test_full_prompt_is_cut_to_its_share_and_the_cut_stays_until_it_is_full_again() -> None:
    talk = RecordedTalk().run_turns(40)
    sizes = [prompt.manifest.tokens for prompt in talk.prompts]
    # A prompt is 9 of the persona, 20 a turn and 10 of the question: the tenth turn is one too many
    assert sizes[:12] == [19 + 20 * turn for turn in range(10)] + [99, 119]
    assert max(sizes) <= 200
    cuts = [turn for first in (7, 13, 19, 25, 31) for turn in [first] * 6]
    assert list_first_turns(talk) == [0, *[1] * 9, *cuts]
    assert count_breaks(talk) == 5


def test_prompts_between_two_cuts_repeat_the_earlier_prompt_wholly() -> None:
    without = RecordedTalk(write_blueprint(PLAIN_STEP)).run_turns(40)
    assert count_breaks(without) == 30
    for before, now in pairwise(RecordedTalk().run_turns(40).prompts):
        prefix = now.manifest.prefix
        assert prefix is not None
        if prefix.ended_by is None:
            assert before.request.messages == now.request.messages[: prefix.messages]
            assert prefix.tokens == before.manifest.tokens


def test_manifest_names_the_reach_of_a_cut_its_limit_and_the_call_that_made_it() -> None:
    talk = RecordedTalk().run_turns(17)
    made, *kept, again = [prompt.manifest.steps for prompt in talk.prompts[10:]]
    shape = AppliedTrimStep(
        step="drop_oldest_pairs", on="recent", before=219, after=99, limit=200, through=6
    )
    assert made == (shape,)
    assert [each[0].since for each in kept] == ["11.1"] * len(kept)
    assert [each[0].after for each in kept] == [99 + 20 * turn for turn in range(1, 6)]
    (step,) = again
    assert (step.through, step.since, step.before, step.after) == (12, None, 219, 99)
    assert find_first_turn(talk.last) == 13


def test_prompts_without_a_share_are_those_of_the_earlier_assembler() -> None:
    talk = RecordedTalk(write_blueprint(PLAIN_STEP)).run_turns(15)
    claimed = talk.opened.apply_steps(submit_turn("q"), claim_turn())
    found = {
        version: assemble_next_prompt(
            claimed, talk.blueprint, FILES, replace(REPLY_CALL, assembler=version)
        )
        for version in (7, 8)
    }
    assert found[7].request == found[8].request
    assert found[7].manifest == found[8].manifest.model_copy(update={"assembler": 7})
    assert "limit" not in found[8].manifest.model_dump_json(exclude_defaults=True)


def test_earlier_assembler_drops_just_enough_by_a_step_with_a_share() -> None:
    talk = RecordedTalk().run_turns(10)
    claimed = talk.opened.apply_steps(submit_turn("q" * 10), claim_turn())
    former = replace(REPLY_CALL, assembler=7)
    found = assemble_next_prompt(claimed, talk.blueprint, FILES, former)
    assert find_first_turn(found.manifest) == 2


def test_last_exchange_that_fits_is_not_dropped_for_the_share() -> None:
    talk = RecordedTalk().run_turns(5).run_turn(submit_turn("q" * 60), "r" * 90).run_turn()
    assert (find_first_turn(talk.last), talk.last.tokens) == (6, 169)
    talk = talk.run_turn()
    assert (find_first_turn(talk.last), talk.last.tokens) == (6, 189)
    talk = talk.run_turn()
    assert (find_first_turn(talk.last), talk.last.tokens) == (7, 59)


def test_share_leaves_the_latest_messages_that_the_step_keeps() -> None:
    talk = RecordedTalk(write_blueprint("drop_oldest_pairs: {to: 20%, keep_messages: 6}"))
    talk = talk.run_turns(11)
    assert find_first_turn(talk.last) == 8
    excluded = talk.apply_steps(ExcludeTurn(11), ExcludeTurn(10), ExcludeTurn(9)).run_turn()
    assert find_first_turn(excluded.last) == 6


@pytest.mark.parametrize(
    ("tokens", "first", "since"), [(220, 1, None), (200, 7, "11.1"), (180, 7, "11.1")]
)
def test_cut_ends_with_a_raised_limit_and_stays_with_a_lowered_one(
    tokens: int, first: int, since: str | None
) -> None:
    talk = RecordedTalk().run_turns(11)
    talk = talk.use_blueprint(write_blueprint(limits=f"tokens: {tokens}"))
    talk = talk.apply_steps(ExcludeTurn(10), ExcludeTurn(11)).run_turn()
    assert find_first_turn(talk.last) == first
    assert {each.since for each in talk.last.steps} == ({since} if since else set[str | None]())


def test_raised_limit_that_is_full_too_gets_a_cut_of_its_own() -> None:
    talk = RecordedTalk().run_turns(20)
    talk = talk.use_blueprint(write_blueprint(limits="tokens: 300")).run_turn()
    (step,) = talk.last.steps
    assert (step.limit, step.since, step.after) == (300, None, talk.last.tokens)
    assert talk.last.tokens <= 150


def test_blueprint_without_the_share_shows_all_that_fits_again() -> None:
    talk = RecordedTalk().run_turns(11)
    talk = talk.use_blueprint(write_blueprint(PLAIN_STEP)).run_turn()
    assert find_first_turn(talk.last) == 3


def test_view_of_another_name_has_no_cut_of_this_one() -> None:
    talk = RecordedTalk().run_turns(11)
    renamed = parse_blueprint(WRITTEN.replace("recent", "latest").replace("STEPS", LASTING_STEP))
    talk = talk.use_blueprint(renamed).run_turn()
    (step,) = talk.last.steps
    assert (step.on, step.since) == ("latest", None)


def test_another_model_keeps_the_cut() -> None:
    talk = RecordedTalk().run_turns(11)
    talk = talk.run_turn(call=replace(REPLY_CALL, model="anthropic/other"))
    assert [each.since for each in talk.last.steps] == ["11.1"]


def test_excluded_and_redacted_turns_leave_the_cut_where_it_is() -> None:
    talk = RecordedTalk().run_turns(11)
    steps = (ExcludeTurn(2), ExcludeTurn(9), RedactReply(8, "a secret", "operator", "(Withheld.)"))
    talk = talk.apply_steps(*steps).run_turn()
    assert [(each.through, each.since) for each in talk.last.steps] == [(6, "11.1")]
    assert find_first_turn(talk.last) == 7


def test_turn_that_is_restored_before_the_cut_ends_it() -> None:
    talk = RecordedTalk().run_turns(10).apply_steps(ExcludeTurn(4)).run_turns(3)
    assert [(each.through, each.since) for each in talk.last.steps] == [(7, "12.1")]
    talk = talk.apply_steps(RestoreTurn(4)).run_turn()
    assert {each.since for each in talk.last.steps} == {None}


def test_prompt_without_an_earlier_call_is_cut_by_itself() -> None:
    talk = RecordedTalk().run_turns(12)
    claimed = talk.opened.apply_steps(submit_turn("q" * 10), claim_turn())
    plan = plan_prompt(SessionMaterial(blueprint=talk.blueprint), claimed.opened_state, REPLY_CALL)
    texts = fetch_prompt_texts(plan.needs, claimed.events, FILES)
    found = assemble(plan, replace(texts, earlier_call=None)).manifest
    (step,) = found.steps
    assert (step.since, step.through, found.tokens) == (None, 8, 99)


def test_cut_of_a_component_answers_for_the_limit_of_the_component() -> None:
    limits = f"components: {{history: {{tokens: 100, ladder: [{LASTING_STEP}]}}}}, tokens: 900"
    talk = RecordedTalk(write_blueprint(PLAIN_STEP, limits=limits)).run_turns(12)
    made, kept = [prompt.manifest.steps for prompt in talk.prompts[6:8]]
    assert [(each.component, each.limit, each.through) for each in made] == [("history", 100, 4)]
    assert [(each.component, each.since, each.after) for each in kept] == [("history", "7.1", 60)]
    assert count_breaks(talk) == 2


def test_cut_for_the_whole_prompt_is_no_cut_of_the_component() -> None:
    limits = f"components: {{history: {{tokens: 195, ladder: [{LASTING_STEP}]}}}}, tokens: 200"
    talk = RecordedTalk(write_blueprint("drop_oldest_pairs: {to: 90%}", limits=limits))
    talk = talk.run_turns(4).run_turn(submit_turn("q" * 113), "r").run_turn()
    assert [(each.component, each.limit, each.since) for each in talk.last.steps] == [
        (None, 200, "5.1")
    ]


def test_turn_that_was_too_old_for_the_view_does_not_come_back_before_the_cut() -> None:
    text = WRITTEN.replace("recent: {}", "recent: {max_turns: 8}")
    blueprint = parse_blueprint(text.replace("STEPS", LASTING_STEP).replace("200", "160"))
    talk = RecordedTalk(blueprint).run_turns(10)
    assert [(each.through, each.since) for each in talk.last.steps] == [(5, "9.1")]
    talk = talk.apply_steps(ExcludeTurn(8), ExcludeTurn(9)).run_turn()
    assert find_first_turn(talk.last) == 6
    assert [(each.through, each.since) for each in talk.last.steps] == [(5, "9.1")]


def test_cut_of_an_overflow_answers_for_the_limit_of_the_overflow() -> None:
    limits = f"overflow: {{tokens: 200, ladder: [{LASTING_STEP}]}}, tokens: 50"
    talk = RecordedTalk(write_blueprint("trim: {layer: input, chars: [8]}", limits=limits))
    talk = talk.run_turns(20)
    assert sorted(set(list_first_turns(talk))) == [0, 1, 7, 13]
    assert {each.limit for each in talk.last.steps if each.through} == {200}


def test_steps_before_the_cut_are_taken_only_while_the_prompt_is_full() -> None:
    talk = RecordedTalk(write_blueprint("trim: {layer: input, chars: [5]}", LASTING_STEP))
    talk = talk.run_turns(12)
    assert [[each.step for each in prompt.manifest.steps] for prompt in talk.prompts[10:]] == [
        ["trim", "drop_oldest_pairs"],
        ["drop_oldest_pairs"],
    ]


def ask_with_pictures(count: int) -> CommandOrFactory:
    digest = compute_digest(PICTURE)
    picture = MediaPart(kind="image", digest=digest, size=len(PICTURE), media_type="image/png")
    return SubmitTurn(text="Who is this?", policies=Policies(), parts=(picture,) * count)


def count_pictures(prompt: AssembledPrompt) -> int:
    media = (each for message in prompt.request.messages for each in message.media)
    return sum(each.note is None for each in media)


def test_pictures_are_left_out_to_the_share_in_whole_turns_and_stay_out() -> None:
    talk = RecordedTalk(write_blueprint("drop_images: {to: 75%}", limits="tokens: 4000"))
    for _ in range(8):
        talk = talk.run_turn(ask_with_pictures(2))
    shown = [count_pictures(prompt) for prompt in talk.prompts]
    assert shown == [2, 4, 2, 4, 2, 4, 2, 4]
    assert [each.since for each in talk.last.steps] == ["7.1"]
    assert count_breaks(talk) == 3


def test_reasoning_goes_as_far_as_the_first_share_and_stays_out() -> None:
    blueprint = parse_blueprint(
        WRITTEN.replace("recent: {}", "recent: {reasoning: keep}").replace("STEPS", LASTING_STEP)
    )
    talk, thought = RecordedTalk(blueprint), json.dumps({"reasoning_content": "t" * 20})
    for _ in range(10):
        talk = talk.run_turn(reasoning=thought)
    steps = [[(each.step, each.since) for each in prompt.manifest.steps] for prompt in talk.prompts]
    assert steps[2:6] == [
        [],
        [("drop_reasoning", None)],
        [("drop_reasoning", "4.1")],
        [("drop_reasoning", "4.1"), ("drop_reasoning", None)],
    ]
    assert max(prompt.manifest.tokens for prompt in talk.prompts) <= 200


@pytest.mark.parametrize(("step", "marks"), [(LASTING_STEP, (0, 8)), (PLAIN_STEP, (0,))])
def test_cache_is_marked_up_to_the_end_of_a_history_whose_cut_lasts(
    step: str, marks: tuple[int, ...]
) -> None:
    marking = replace(
        REPLY_CALL, dialect=RequestDialect(rendering=RENDERING_VERSION, cache_marks="anthropic")
    )
    talk = RecordedTalk(write_blueprint(step)).run_turns(10).run_turn(call=marking)
    assert talk.last.cache_marks == marks


def test_every_prompt_of_a_cut_session_reads_back() -> None:
    talk = RecordedTalk().run_turns(25)
    for prompt in talk.prompts:
        found = read_prompt(prompt.manifest, talk.opened.events, build_blobs(FILES))
        assert found == prompt.request.messages
