"""Prompts of the shipped game master, assembled in memory from segments of a test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from tests.parts.windows import CALL, fetched
from turnlog.events.content import digest_of
from turnlog.projections.blueprint.schema import Blueprint, reach
from turnlog.projections.library.picked import Gathered, Picked
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.testing import POLICIES, Given, given, opening
from turnlog.projections.window.assemble import assemble, needs, segments_wanted
from turnlog.projections.window.call import Assembled, Call
from turnlog.projections.window.material import Material
from turnlog.projections.window.pieces import TakeStep
from turnlog.services.runtime.library import Library

GAME_MASTER = Library().get("game-master")
PLACE: dict[str, JsonValue] = {"entry_point": "ep.1", "world": "w.1", "ruleset": "r.1"}
REFS = {"ruleset": "r.1", "world": "w.1", "entry": "ep.1", "entry_start": "ep.1"}


def picked(
    number: int,
    scope: str,
    text: str,
    ref: str | None = None,
    *,
    tier: int = 0,
    type: str = "",
    priority: str = "normal",
) -> Picked:
    """Build a segment; a segment of the story's scopes gets the story's reference."""
    of = REFS.get(scope, ref)
    return Picked(number, scope, of, "en", 1, "a", tier, type, priority, digest_of(text), text)


@dataclass(frozen=True, slots=True)
class Tale:
    """A session with an open turn, and the segments of the library."""

    segments: tuple[Picked, ...]
    text: str
    inputs: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    blueprint: Blueprint = GAME_MASTER
    registered: Mapping[str, TakeStep] = field(default_factory=dict[str, TakeStep])

    @property
    def material(self) -> Material:
        """The material the prompt is assembled from."""
        return Material(self.blueprint, registered=self.registered)

    @property
    def session(self) -> Given:
        """The session with its turn submitted."""
        submitted = SubmitTurn(self.text, POLICIES, inputs=dict(self.inputs))
        return given(opening(reach=reach(self.blueprint), **PLACE), submitted)

    @property
    def call(self) -> Call:
        """The call with its segments."""
        call = replace(CALL, kind="narrate", inputs=self.inputs)
        wanted = segments_wanted(self.material, self.session.opened, call)
        found = {
            want: tuple(
                each for each in self.segments if (each.scope, each.ref) == (want.scope, want.ref)
            )
            for want in wanted
        }
        return replace(call, gathered=Gathered(found))

    def told(self, call: Call | None = None) -> Assembled:
        """Assemble the prompt; raises `Refused` when it cannot fit."""
        session, call = self.session, call or self.call
        asked = needs(self.material, session.opened, call)
        texts = fetched(asked, session.events, {})
        return assemble(self.material, session.opened, call, texts)


def with_budget(**budget: JsonValue) -> Blueprint:
    """Return the game master with another budget."""
    written = GAME_MASTER.model_dump(mode="json", by_alias=True, exclude_unset=True)
    written["budget"] = {"prompt": budget}
    return Blueprint.model_validate_json(json.dumps(written))


def with_ladder(steps: Iterable[JsonValue], tokens: int) -> Blueprint:
    """Return the game master with these steps for the whole prompt, and no sections."""
    return with_budget(tokens=tokens, ladder=list(steps))
