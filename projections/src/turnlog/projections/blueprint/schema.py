"""The shape of a blueprint: the data by which one kind of session differs from another.

Everything here is validated before a session opens by it, and pinned by digest when one does.
A word that is not in here is refused, with the nearest one named; nothing is ever evaluated.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, JsonValue, Tag, field_validator

from turnlog.events.content import Digest, digest_of
from turnlog.events.forms import form_by
from turnlog.projections.blueprint.asking import (
    FrontDoor,
    ResolverSpec,
    SessionSpec,
)
from turnlog.projections.blueprint.budget import Budget, widest
from turnlog.projections.blueprint.form import Form
from turnlog.projections.blueprint.layer import Layer
from turnlog.projections.blueprint.output import OutputSpec
from turnlog.projections.blueprint.phases import PhasesSpec
from turnlog.projections.blueprint.policies import Policies as Policies  # noqa: PLC0414 re-exported
from turnlog.projections.blueprint.policies import Retries as Retries  # noqa: PLC0414 re-exported
from turnlog.projections.blueprint.profile import Profile
from turnlog.projections.blueprint.strict import Name, Strict
from turnlog.projections.blueprint.tools import ToolsSpec
from turnlog.projections.blueprint.views import History as History  # noqa: PLC0414 re-exported

Type = Literal["id", "text", "locale", "int", "bool", "list", "map"]


class Value(Strict):
    """One attribute or input: what may be given, and what stands in when nothing is."""

    type: Type
    """What kind of value it is."""
    required: bool = False
    """Whether it must be given."""
    default: JsonValue = None
    """What it is when it is not given."""
    of: dict[Name, Of] | None = None
    """Of a list: what each of its items says, and nothing else."""
    min: int | None = None
    """Of a whole number: the least it may be."""
    max: int | None = None
    """Of a whole number: the most it may be."""


def _spelt_out(written: object) -> object:
    """Read `tier: int` as `tier: {type: int, required: true}`."""
    return {"type": written, "required": True} if isinstance(written, str) else written


Of = Annotated[Value, BeforeValidator(_spelt_out, json_schema_input_type=Type | Value)]
"""A value of an item; only its type is as much as to say that it must be there."""
Value.model_rebuild()


class SystemMessage(Strict):
    """One system message, made of layers."""

    system: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The layers, in order."""
    form: Name | None = None
    """How they are set apart; joined by a blank line where nothing is said."""

    @property
    def layers(self) -> tuple[Name, ...]:
        """The layers, in order."""
        return self.system


class UserMessage(Strict):
    """One user message, made of layers; `input` is the text of the turn."""

    user: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The layers, in order."""
    form: Name | None = None
    """How they are set apart; joined by a blank line where nothing is said."""

    @property
    def layers(self) -> tuple[Name, ...]:
        """The layers, in order."""
        return self.user


class HistoryMessages(Strict):
    """The messages of a history view; a call lists a view once."""

    history: Name
    """The view."""


MessageSlot = Annotated[
    Annotated[SystemMessage, Tag("(system)")]
    | Annotated[UserMessage, Tag("(user)")]
    | Annotated[HistoryMessages, Tag("(history)")],
    Discriminator(
        form_by("system", "user", "history"),
        custom_error_type="message_kind",
        custom_error_message="a message is `system`, `user` or `history`",
    ),
]


class CallSpec(Strict):
    """A kind of call: its messages in order, and the budget they must fit."""

    messages: Annotated[tuple[MessageSlot, ...], Field(min_length=1)]
    """What the model is sent, in order."""
    budget: Name | None = None
    """Which budget; without one nothing is ever cut."""
    tools: tuple[Literal["transition_phase", "all", "for_step"], ...] = ()
    """Tools the model may be offered: the one that ends a phase, all that servers have, or those
    of the step."""
    input: Literal["none"] | None = None
    """`none` for a call that a phase starts by itself."""
    parameters: dict[str, JsonValue] = {}
    """Those of `PARAMETERS` that it sets, such as `temperature`."""
    fallback: Literal["resolved.answer"] | None = None
    """What is answered where the model is off or fails; without it the turn fails."""
    output: OutputSpec | None = None
    """The form its answer must have; without it any text will do."""

    @property
    def layers(self) -> tuple[Name, ...]:
        """The layers of all its messages, in order."""
        made = (slot for slot in self.messages if not isinstance(slot, HistoryMessages))
        return tuple(name for slot in made for name in slot.layers)


class CartridgeSpec(Strict):
    """The data of one task, beside the blueprint."""

    file: Annotated[str, Field(min_length=1)]
    """Its path; attributes may stand in it."""
    requires: tuple[str, ...] = ()
    """Dotted paths that it must fill."""
    context: str | None = None
    """Dotted path to the levels of context it asks for."""


class Prompts(Strict):
    """Where prompt files are looked for."""

    search: tuple[str, ...] = (".",)
    """Folders beside the blueprint, in order; the first that has the file wins."""


class SegmentsSpec(Strict):
    """How the library is asked for segments."""

    locale: Annotated[tuple[str, ...], Field(min_length=1)] = ("en",)
    """Locales or paths to one, `attributes...` or `inputs...`; the first that has segments wins."""


class Blueprint(Strict):
    """A kind of session."""

    blueprint: Name
    """Its name."""
    version: Annotated[int, Field(ge=1)]
    """Its author's version."""
    summary: str = ""
    """What it is for, in a sentence."""
    session: SessionSpec | None = None
    """How a session is found; without it, by its id alone."""
    front_door: FrontDoor | None = None
    """A door of its own that leads to it."""
    attributes: dict[Name, Value] = {}
    """What a session takes when it opens."""
    inputs: dict[Name, Value] = {}
    """What a turn takes beside its text."""
    cartridge: CartridgeSpec | None = None
    """The data of one task, pinned when a session opens."""
    prompts: Prompts = Prompts()
    """Where prompt files are looked for."""
    resolver: ResolverSpec | None = None
    """Who says what a turn is about, before any model is asked."""
    layers: dict[Name, Layer]
    """The named parts of its prompts."""
    calls: dict[Name, CallSpec]
    """The kinds of call a session makes."""
    history: dict[Name, History] = {}
    """Named views of the turns."""
    forms: dict[Name, Form] = {}
    """Named ways to set the layers of a message apart."""
    budget: dict[Name, Budget] = {}
    """Named budgets."""
    segments: SegmentsSpec = SegmentsSpec()
    """How the library is asked for segments."""
    tools: ToolsSpec | None = None
    """The tools it has, and how they are run."""
    phases: PhasesSpec | None = None
    """How it runs the phases of its cartridge."""
    policies: Policies = Policies()
    """Rules of conduct."""
    profiles: Annotated[dict[Name, Profile], Field(min_length=1)]
    """Named ways to run; exactly one is the default."""

    @field_validator("profiles")
    @classmethod
    def _one_default(cls, profiles: dict[Name, Profile]) -> dict[Name, Profile]:
        defaults = sum(profile.default for profile in profiles.values())
        if defaults != 1:
            message = f"exactly one profile must say `default: true`, {defaults} do"
            raise ValueError(message)
        return profiles

    def conduct(self, profile: Name) -> Policies:
        """The rules under a profile, which may have a deadline of its own."""
        seconds = self.profiles[profile].deadline_seconds
        if seconds is None:
            return self.policies
        return self.policies.model_copy(update={"deadline_seconds": seconds})

    @property
    def default_profile(self) -> Name:
        """The profile a session starts with."""
        return next(name for name, profile in self.profiles.items() if profile.default)

    def view(self, name: Name) -> History:
        """Give a view of the turns, with what it takes from the one it is like."""
        view = self.history[name]
        like = self.history.get(view.like or "")
        if like is None:
            return view
        own = {word: getattr(view, word) for word in view.model_fields_set}
        return like.model_copy(update=own)

    @property
    def summing(self) -> frozenset[Name]:
        """The calls that sum up: those of no turn's own."""
        views = (view.summary for view in self.history.values())
        return frozenset(summary.call for summary in views if summary)

    def summarised_by(self, name: Name) -> Name:
        """Name the view by whose words a view is summed up: its own, or the one it is like."""
        view = self.history[name]
        return name if view.like is None or "summary" in view.model_fields_set else view.like


def stored_form(blueprint: Blueprint) -> bytes:
    """Give the bytes a session pins: JSON without what the author left unsaid."""
    return blueprint.model_dump_json(exclude_unset=True, by_alias=True).encode()


def blueprint_digest(blueprint: Blueprint) -> Digest:
    """Digest of the stored form."""
    return digest_of(stored_form(blueprint))


def reach(blueprint: Blueprint) -> int:
    """Characters of history the widest window can hold; 0 where one has no budget to bound it.

    Views of the whole history do not count, which are folded from the first event anyway, nor does
    what is to be summed up.
    """
    looking = [call for call in blueprint.calls.values() if _looks_back(blueprint, call)]
    budgets = [blueprint.budget.get(call.budget or "") for call in looking]
    widths = [_width(found) if found else 0 for found in budgets]
    return max(widths, default=0) if all(widths) else 0


def _width(budget: Budget) -> int:
    """Characters a budget has room for; 0 where a turn may say that it is more."""
    tokens = budget.tokens
    return tokens * widest(budget.counter) if isinstance(tokens, int) else 0


def _looks_back(blueprint: Blueprint, call: CallSpec) -> bool:
    slots = (slot.history for slot in call.messages if isinstance(slot, HistoryMessages))
    views = map(blueprint.view, slots)
    return any(not view.all and view.of != "selected" for view in views)
