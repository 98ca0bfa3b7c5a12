"""Whatever happens between two calls, cuts that last are assembled again from the log alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.support.generators.session_strategies import fewer_examples
from tests.support.sessions.prompt_assembly import (
    REPLY_CALL,
    assemble_next_prompt,
    assemble_prompt_from,
    build_blobs,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.events.errors import Refused
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import HistorySource, Manifest
from turnlog.projections.audit.record.prompt_readback import read_prompt
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.session.commands import ExcludeTurn, FixContext, PurgeMemory, RestoreTurn
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.projections.testing import (
    CommandOrFactory,
    SessionScenario,
    claim_turn,
    complete_turn,
    get_attempt,
    submit_turn,
)

FILES = {"persona": "Be brief."}

LADDERS = (
    "drop_oldest_pairs: {to: 50%}",
    "drop_oldest_pairs: {to: 80%, keep_messages: 4}",
    "trim: {layer: input, chars: [9]}, drop_oldest_pairs: {history: recent, to: 30%}",
    "condense_repeats: {}, drop_oldest_pairs: {to: 70%}",
)

LIMITS = (
    "tokens: 120, ladder: [{}]",
    "tokens: 240, ladder: [{}]",
    "tokens: 60, ladder: [], overflow: {{tokens: 160, ladder: [{}]}}",
    "tokens: 300, components: {{history: {{tokens: 90, ladder: [{}]}}}}",
)


def write_blueprint(limits: str, ladder: str) -> Blueprint:
    return parse_blueprint(f"""\
blueprint: guide
version: 1
layers:
  persona: {{file: persona.md}}
calls:
  reply:
    messages: [{{system: [persona]}}, {{history: recent}}, {{user: [input]}}]
    budget: window
history: {{recent: {{}}}}
budget: {{window: {{{limits.format(ladder)}, counter: {{chars_per_token: 1}}}}}}
profiles: {{chat: {{default: true, call: reply}}}}
""")


BLUEPRINTS = st.sampled_from(
    [
        write_blueprint(limits, ladder)
        for limits in LIMITS
        for ladder in LADDERS
        if not ("components" in limits and "trim" in ladder)
    ]
)

TURNS = st.tuples(st.integers(1, 40), st.integers(1, 40))
"""The lengths of a question and its reply."""

CHANGES = st.sampled_from(["exclude", "restore", "redact", "purge", "move", "switch"])

STEPS = st.lists(TURNS | TURNS | TURNS | CHANGES, min_size=6, max_size=16)


@dataclass(frozen=True, slots=True)
class PlayedPrompt:
    """A recorded prompt with what it was assembled by."""

    prompt: AssembledPrompt
    blueprint: Blueprint
    model: str


@dataclass(slots=True)
class PlayedSession:
    """A session whose prompts are recorded as they are made."""

    blueprints: list[Blueprint]
    session: SessionScenario
    model: str = "openai/test"
    prompts: list[PlayedPrompt] = field(default_factory=list[PlayedPrompt])

    def run_turn(self, asked: int, said: int) -> None:
        """Ask and answer; a prompt that cannot fit is not recorded, and its turn answered."""
        number = len(self.prompts) + 1
        claimed = self.session.apply_steps(submit_turn(f"{number:{asked}}"), claim_turn())
        call = replace(REPLY_CALL, model=self.model)
        try:
            prompt = assemble_next_prompt(claimed, self.blueprints[0], FILES, call)
        except Refused:
            self.session = claimed.apply_steps(complete_turn("."))
            return
        fixed = FixContext(
            attempt=get_attempt(claimed.opened_state),
            model=self.model,
            parameters={},
            manifest=prompt.manifest,
        )
        self.session = claimed.apply_steps(fixed, complete_turn(f"{number:{said}}"))
        self.prompts.append(PlayedPrompt(prompt, self.blueprints[0], self.model))

    def apply_change(self, change: str, turn: int) -> None:
        """Let something happen between two calls."""
        match change:
            case "move":
                self.blueprints.reverse()
            case "switch":
                self.model = "anthropic/other" if "test" in self.model else "openai/test"
            case _:
                commands: dict[str, CommandOrFactory] = {
                    "exclude": ExcludeTurn(turn),
                    "restore": RestoreTurn(turn),
                    "redact": RedactReply(turn, "a secret", "operator", "(Withheld.)"),
                    "purge": PurgeMemory(),
                }
                try:
                    self.session = self.session.apply_steps(commands[change])
                except Refused:
                    return


def play_steps(
    blueprints: tuple[Blueprint, Blueprint], steps: list[tuple[int, int] | str], turn: int
) -> PlayedSession:
    played = PlayedSession([*blueprints], open_with_blueprint(blueprints[0], FILES))
    for step in steps:
        if isinstance(step, str):
            played.apply_change(step, turn)
        else:
            played.run_turn(*step)
    return played


@fewer_examples
@given(st.tuples(BLUEPRINTS, BLUEPRINTS), STEPS, st.integers(1, 8))
def test_prompts_with_lasting_cuts_reproduce_from_the_log_both_ways(
    blueprints: tuple[Blueprint, Blueprint], steps: list[tuple[int, int] | str], turn: int
) -> None:
    played = play_steps(blueprints, steps, turn)
    events = played.session.events
    recorded = [each.event for each in events if isinstance(each.event, ContextAssembled)]
    assert [each.manifest for each in recorded] == [each.prompt.manifest for each in played.prompts]
    for event, each in zip(recorded, played.prompts, strict=True):
        known = [one for one in events if one.sequence <= event.manifest.sequence]
        call = replace(REPLY_CALL, model=each.model)
        state = fold(known)
        assert state is not None
        again = assemble_prompt_from(state, known, each.blueprint, FILES, call)
        assert again == each.prompt
        assert read_prompt(event.manifest, known, build_blobs(FILES)) == again.request.messages
        assert again.manifest.budget is not None
        assert again.manifest.tokens <= again.manifest.budget


@fewer_examples
@given(BLUEPRINTS, st.lists(TURNS, min_size=8, max_size=14))
def test_prompt_that_makes_no_cut_of_its_own_repeats_the_earlier_one(
    blueprint: Blueprint, turns: list[tuple[int, int]]
) -> None:
    played = play_steps((blueprint, blueprint), [*turns], 1)
    manifests = [each.prompt.manifest for each in played.prompts]
    for before, now in pairwise(manifests):
        shown = list_shown_turns(now)
        kept = [each for each in now.steps if each.since]
        assert all(turn > each.through for each in kept if each.through for turn in shown)
        others = [each for each in (*before.steps, *now.steps) if not each.through]
        if not others and all(each.since for each in now.steps):
            assert now.prefix is not None
            assert now.prefix.ended_by in {None, "input"}
            assert min(shown, default=0) == min(list_shown_turns(before), default=1) or not shown


def list_shown_turns(manifest: Manifest) -> list[int]:
    runs = (part.source for part in manifest.parts if part.is_included)
    return [
        turn
        for run in runs
        if isinstance(run, HistorySource)
        for turn in range(run.first, run.last + 1)
    ]
