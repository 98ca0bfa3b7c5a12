"""How much of a prompt repeats the one before it, recorded beside the messages."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from tests.support.sessions.prompt_assembly import (
    assemble_next_prompt,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.events.model.manifest import CachePrefix
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.session.commands import ExcludeTurn, FixContext, RestoreTurn
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.projections.testing import (
    CommandOrFactory,
    SessionScenario,
    claim_turn,
    complete_turn,
    get_attempt,
    submit_turn,
)

BLUEPRINT = """
blueprint: remembering
version: 1
layers:
  persona: {file: persona.md, component: system_prompt}
  first: {text: "Greet them.", when: first_turn}
calls:
  reply:
    messages:
      - system: [persona, first]
      - history: recent
      - user: [input]
    budget: window
history: {recent: {}}
budget:
  window:
    tokens: 120
    counter: {chars_per_token: 1}
    ladder: [{drop_oldest_pairs: {history: recent}}]
profiles:
  one: {default: true, call: reply}
"""

FILES = {"persona": "Be brief."}


@dataclass(frozen=True, slots=True)
class RecordedTalk:
    """A session and every prompt recorded in it."""

    session: SessionScenario
    blueprint: Blueprint
    prompts: tuple[AssembledPrompt, ...] = ()

    def run_turn(self, text: str) -> RecordedTalk:
        """Ask, fix the prompt and answer."""
        claimed = self.session.apply_steps(submit_turn(text), claim_turn())
        prompt = assemble_next_prompt(claimed, self.blueprint, FILES)
        attempt = get_attempt(claimed.opened_state)
        fixed = claimed.apply_steps(
            FixContext(
                attempt=attempt, model="openai/test", parameters={}, manifest=prompt.manifest
            )
        )
        answered = fixed.apply_steps(complete_turn(f"To {text}: yes."))
        return RecordedTalk(answered, self.blueprint, (*self.prompts, prompt))

    def apply_steps(self, *steps: CommandOrFactory) -> RecordedTalk:
        """Let something else happen."""
        return RecordedTalk(self.session.apply_steps(*steps), self.blueprint, self.prompts)

    @property
    def prefix(self) -> CachePrefix | None:
        """What the latest prompt says of the one before."""
        return self.prompts[-1].manifest.prefix


def begin_talk() -> RecordedTalk:
    blueprint = parse_blueprint(BLUEPRINT)
    return RecordedTalk(open_with_blueprint(blueprint, FILES), blueprint)


def build_redaction(turn: int) -> RedactReply:
    return RedactReply(turn, "a secret", "operator", "(Withheld.)")


def test_first_call_of_a_kind_has_no_cache_prefix() -> None:
    assert begin_talk().run_turn("one").prefix is None


def test_continued_conversation_reuses_the_complete_previous_prompt() -> None:
    talk = begin_talk().run_turn("one").run_turn("two").run_turn("three")
    before = talk.prompts[1].manifest
    assert talk.prefix == CachePrefix(call="2.1", messages=4, tokens=before.tokens, ended_by=None)


def test_cache_prefix_names_the_layer_that_is_no_longer_included() -> None:
    assert begin_talk().run_turn("one").run_turn("two").prefix == CachePrefix(
        call="1.1", messages=1, tokens=9, ended_by="first"
    )


@pytest.mark.parametrize(
    ("steps", "messages"),
    [((ExcludeTurn(1),), 1), ((build_redaction(1),), 2), ((ExcludeTurn(1), RestoreTurn(1)), 6)],
)
def test_changed_or_excluded_turn_ends_the_cache_prefix(
    steps: tuple[CommandOrFactory, ...], messages: int
) -> None:
    prefix = (
        begin_talk()
        .run_turn("one")
        .run_turn("two")
        .run_turn("three")
        .apply_steps(*steps)
        .run_turn("four")
        .prefix
    )
    assert prefix is not None
    ended_by = None if messages == 6 else "history"
    assert (prefix.call, prefix.messages, prefix.ended_by) == ("3.1", messages, ended_by)


def test_dropping_the_oldest_turns_ends_the_cache_prefix_after_the_system_prompt() -> None:
    talk = begin_talk().run_turn("a" * 20).run_turn("b" * 20).run_turn("c" * 20)
    assert talk.prefix == CachePrefix(call="2.1", messages=1, tokens=9, ended_by="history")


CHANGES = st.lists(
    st.sampled_from(["ask", "ask", "ask long", "exclude", "restore", "redact"]), max_size=8
)


@drawn(CHANGES, st.integers(1, 3))
def test_cache_prefix_is_the_longest_common_prefix_of_both_prompts(
    changes: list[str], turn: int
) -> None:
    talk = begin_talk().run_turn("one").run_turn("two").run_turn("three")
    done = set[str]()
    for number, change in enumerate(changes):
        match change:
            case "ask":
                talk = talk.run_turn(f"what {number}?")
            case "ask long":
                talk = talk.run_turn(f"{number}" * 30)
            case "exclude":
                talk = talk.apply_steps(ExcludeTurn(turn))
            case "restore":
                talk = talk.apply_steps(RestoreTurn(turn))
            case _ if change not in done:
                talk = talk.apply_steps(build_redaction(turn))
                done.add(change)
            case _:
                pass
    talk = talk.run_turn("and?")
    before, now = (prompt.request.messages for prompt in talk.prompts[-2:])
    prefix = talk.prefix
    assert prefix is not None
    assert before[: prefix.messages] == now[: prefix.messages]
    if prefix.ended_by is None:
        assert prefix.messages == len(before)
        assert prefix.tokens == talk.prompts[-2].manifest.tokens
    else:
        assert before[prefix.messages] != now[prefix.messages]
