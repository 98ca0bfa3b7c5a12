"""The shipped blueprints, each with what a session needs to use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from tests.parts.tales import PLACE, picked
from tests.parts.windows import CALL, fetched
from turnlog.events.content import digest_of
from turnlog.events.envelope import Recorded
from turnlog.events.prompt import PromptFile, PromptsSnapshotted
from turnlog.projections.blueprint.overriding import prompt_layers
from turnlog.projections.blueprint.schema import reach
from turnlog.projections.library.picked import Gathered, Picked, Wanted
from turnlog.projections.session.evolve import fold_whole
from turnlog.projections.session.state import SessionState
from turnlog.projections.testing import Given, given, opening
from turnlog.projections.window.assemble import assemble, needs, segments_wanted
from turnlog.projections.window.call import Assembled, Call
from turnlog.projections.window.material import Material
from turnlog.projections.window.pinned import vocabularies_named
from turnlog.services.runtime.library import Library
from turnlog.services.runtime.vocabularies import TiktokenVocabulary

LIBRARY = Library()
ATTRIBUTES: dict[str, dict[str, JsonValue]] = {
    "trickster": {"task": "lucky-draw", "locale": "lt"},
    "game-master": PLACE,
}
SEGMENTS = (
    picked(1, "core", "Tell a story."),
    picked(2, "ruleset", "A six succeeds."),
    picked(3, "world", "It is foggy."),
    picked(4, "npc", "She hums.", "npc.a", tier=1),
)


@dataclass(frozen=True, slots=True)
class Shipped:
    """A shipped blueprint, with a budget that a test may set."""

    name: str
    tokens: int | None = None
    inputs: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    @property
    def attributes(self) -> dict[str, JsonValue]:
        """The attributes its session is opened with."""
        return ATTRIBUTES.get(self.name, {})

    @property
    def material(self) -> Material:
        """The material its prompts are assembled from."""
        blueprint = LIBRARY.get(self.name)
        if self.tokens is not None:
            tokens = {"tokens": self.tokens}
            budgets = {n: each.model_copy(update=tokens) for n, each in blueprint.budget.items()}
            blueprint = blueprint.model_copy(update={"budget": budgets})
        return Material(
            blueprint,
            LIBRARY.cartridge(blueprint, self.attributes) or {},
            vocabularies={n: TiktokenVocabulary(n) for n in vocabularies_named(blueprint)},
        )

    @property
    def files(self) -> dict[str, str]:
        """Its prompt files, by layer."""
        blueprint = LIBRARY.get(self.name)
        layers = prompt_layers(blueprint)
        found = LIBRARY.prompt_files(blueprint, layers, "openai", self.attributes)
        return {name: text for name, (_, text) in found.items()}

    def opened(self) -> Given:
        """Open a session with its prompt files pinned."""
        material = self.material
        files = {n: PromptFile(digest=digest_of(t), path=n) for n, t in self.files.items()}
        command = replace(
            opening(reach=reach(material.blueprint), **self.attributes),
            profile=material.blueprint.default_profile,
            phases=material.phases,
        )
        return given(command, PromptsSnapshotted(provider="openai", layers=files))

    def call(self, state: SessionState, kind: str) -> Call:
        """Build a call of a kind, with the library's segments."""
        call = replace(CALL, kind=kind, inputs=self.inputs)
        wanted = segments_wanted(self.material, state, call)
        return replace(call, gathered=Gathered({want: _held(want) for want in wanted}))

    def assembled(self, state: SessionState, events: Sequence[Recorded], call: Call) -> Assembled:
        """Assemble a call from a state, or from all events where the state lacks older turns."""
        asked = needs(self.material, state, call)
        if asked.older:
            whole = fold_whole(events)
            assert whole is not None
            state, asked = whole, needs(self.material, whole, call)
        return assemble(self.material, state, call, fetched(asked, events, self.files))


def _held(want: Wanted) -> tuple[Picked, ...]:
    return tuple(each for each in SEGMENTS if (each.scope, each.ref) == (want.scope, want.ref))
