"""The blueprint model: the data that distinguishes one kind of session from another.

A blueprint is validated before a session opens with it, and pinned by its digest when one does.
Unknown fields are refused with the nearest known one; nothing is ever evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, cast

from pydantic import BeforeValidator, Field, JsonValue, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from turnlog.events.content import Digest, compute_digest
from turnlog.projections.blueprint.schema.budget_specs import (
    BudgetSpec,
    get_max_characters_per_token,
)
from turnlog.projections.blueprint.schema.call_specs import (
    CallSpec,
    HistoryMessageSlot,
    MessageFormat,
    ProfileSpec,
)
from turnlog.projections.blueprint.schema.history_specs import CondenseMode, HistoryViewSpec
from turnlog.projections.blueprint.schema.layer_specs import LayerSpec, RetrievalLayer
from turnlog.projections.blueprint.schema.lookups.resolver_specs import (
    FrontDoor,
    ResolverSpec,
    SessionKeySpec,
)
from turnlog.projections.blueprint.schema.lookups.retrieval_specs import (
    CallQueries,
    ResolvedRetrieval,
    RetrievalSpec,
    SelectionSettings,
)
from turnlog.projections.blueprint.schema.phase_specs import BY_PHASE, PhasesSpec
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.blueprint.schema.strict_model import ModelName, Name, StrictModel
from turnlog.projections.blueprint.schema.tool_specs import ToolsSpec

OtherName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")]


def _convert_to_tuple(written: object) -> object:
    """Convert a list, which is refused where a bare type may stand in place of the spec."""
    return tuple(cast("list[object]", written)) if isinstance(written, list) else written


OtherNames = Annotated[
    tuple[OtherName, ...],
    BeforeValidator(_convert_to_tuple, json_schema_input_type=list[OtherName]),
]


def _check_listed_value(written: object) -> object:
    if isinstance(written, str | int) and not isinstance(written, bool):
        return written
    message = "be text or a whole number"
    raise PydanticCustomError("listed_value", message)


ListedValue = Annotated[str | int, BeforeValidator(_check_listed_value)]

ListedValues = Annotated[
    tuple[ListedValue, ...],
    Field(min_length=1),
    BeforeValidator(_convert_to_tuple, json_schema_input_type=list[ListedValue]),
]

ValueType = Literal["id", "text", "locale", "int", "bool", "list", "map"]


class ValueSpec(StrictModel):
    """The type, allowed values and default of one attribute or input."""

    type: ValueType
    """The type of the value."""
    required: bool = False
    """True if the value must be given."""
    default: JsonValue = None
    """The value if none is given."""
    also: OtherNames = ()
    """Other names under which a caller may send it, such as `isFirstTurn`; it is recorded under its
    own.
    """
    of: dict[Name, ItemSpec] | None = None
    """For a list: the values of each item; an item has no others."""
    min: int | None = None
    """For an integer: the minimum."""
    max: int | None = None
    """For an integer: the maximum."""
    min_length: Annotated[int, Field(ge=0)] | None = None
    """For a text or an id: the minimum of characters."""
    max_length: Annotated[int, Field(ge=0)] | None = None
    """For a text or an id: the maximum of characters; at most 4,096 with a pattern."""
    pattern: Annotated[str, Field(min_length=1)] | None = None
    """For a text or an id: a pattern of Rust's `regex` that the whole value matches."""
    enum: ListedValues | None = None
    """For a text, an id, a locale or an integer: the values that it may have."""


def _expand_type_shorthand(written: object) -> object:
    """Expand `tier: int` to `tier: {type: int, required: true}`."""
    return {"type": written, "required": True} if isinstance(written, str) else written


ItemSpec = Annotated[
    ValueSpec, BeforeValidator(_expand_type_shorthand, json_schema_input_type=ValueType | ValueSpec)
]
"""A value of a list item; a bare type is short for a required value of that type."""


ValueSpec.model_rebuild()


class CartridgeSpec(StrictModel):
    """The cartridge: the data of one task, in a file beside the blueprint."""

    file: Annotated[str, Field(min_length=1)]
    """Its path; may contain attribute slots."""
    requires: tuple[str, ...] = ()
    """Dotted paths that must have a value."""
    context: str | None = None
    """Dotted path to the context levels that the cartridge asks for."""


class PromptSearch(StrictModel):
    """Where prompt files are searched."""

    search: tuple[str, ...] = (".",)
    """Folders beside the blueprint, in order; the first that contains the file is used."""


class SegmentLocales(StrictModel):
    """The locales in which library segments are requested."""

    locale: Annotated[tuple[str, ...], Field(min_length=1)] = ("en",)
    """Locales, or paths to one (`attributes...` or `inputs...`), in order, each followed by its
    shorter tags; the first that has segments is used.
    """


class ModelsSpec(StrictModel):
    """The models that clients may switch a session to."""

    allow: tuple[ModelName, ...] = ()
    """Model names of litellm, in addition to the models of the profiles."""


class Blueprint(StrictModel):
    """The definition of one kind of session."""

    blueprint: Name
    """Its name."""
    version: Annotated[int, Field(ge=1)]
    """The version number given by its author."""
    summary: str = ""
    """Its purpose in one sentence."""
    session: SessionKeySpec | None = None
    """The key by which a session is found; without it sessions are found by id only."""
    front_door: FrontDoor | None = None
    """A dedicated HTTP route for its sessions."""
    attributes: dict[Name, ValueSpec] = {}
    """Values that are given when a session opens."""
    inputs: dict[Name, ValueSpec] = {}
    """Values that are given with a turn, beside its text."""
    cartridge: CartridgeSpec | None = None
    """The data of one task, pinned when a session opens."""
    prompts: PromptSearch = PromptSearch()
    """Where prompt files are searched."""
    resolver: ResolverSpec | None = None
    """The resolver that determines what a turn is about before any model call."""
    layers: dict[Name, LayerSpec]
    """The named parts of its prompts."""
    calls: dict[Name, CallSpec]
    """The kinds of model calls."""
    history: dict[Name, HistoryViewSpec] = {}
    """Named views of the turns."""
    forms: dict[Name, MessageFormat] = {}
    """Named message formats."""
    budget: dict[Name, BudgetSpec] = {}
    """Named token budgets."""
    segments: SegmentLocales = SegmentLocales()
    """The locales of library segments."""
    tools: ToolsSpec | None = None
    """Its tools, and how they are run."""
    retrieval: dict[Name, RetrievalSpec] = {}
    """What its turns take from the tenant's knowledge."""
    phases: PhasesSpec | None = None
    """How it runs phases."""
    models: ModelsSpec = ModelsSpec()
    """The models that clients may switch a session to, in addition to those of its profiles."""
    policies: Policies = Policies()
    """Queueing, deadlines, retries and safety."""
    profiles: Annotated[dict[Name, ProfileSpec], Field(min_length=1)]
    """Named ways to run a session; exactly one is the default."""

    @field_validator("profiles")
    @classmethod
    def _check_one_default(cls, profiles: dict[Name, ProfileSpec]) -> dict[Name, ProfileSpec]:
        defaults = sum(profile.default for profile in profiles.values())
        if defaults != 1:
            message = f"exactly one profile must say `default: true`, {defaults} do"
            raise ValueError(message)
        return profiles

    @field_validator("profiles")
    @classmethod
    def _resolve_programs(
        cls, profiles: dict[Name, ProfileSpec], info: ValidationInfo
    ) -> dict[Name, ProfileSpec]:
        """Give a chat whose call offers all tools the program that runs them."""
        calls: dict[Name, CallSpec] = info.data.get("calls", {})
        phases: PhasesSpec | None = info.data.get("phases")

        def has_all_tools(profile: ProfileSpec) -> bool:
            named = (calls.get(name) for name in _list_reply_calls(profile, phases))
            return any(call is not None and "all" in call.tools for call in named)

        return {
            name: profile.model_copy(update={"program": "loop"})
            if profile.program == "chat" and profile.tools is None and has_all_tools(profile)
            else profile
            for name, profile in profiles.items()
        }

    def list_reply_calls(self, profile: ProfileSpec) -> tuple[Name, ...]:
        """Return the calls that write the replies of a profile: one, or one for each phase."""
        return _list_reply_calls(profile, self.phases)

    def resolve_policies(self, profile: Name) -> Policies:
        """Return the policies under a profile, with the profile's own deadline and timeouts."""
        own, policies = self.profiles[profile], self.policies
        timeouts = own.timeouts.merge_over(policies.timeouts)
        seconds = own.deadline_seconds or policies.deadline_seconds
        return policies.model_copy(update={"deadline_seconds": seconds, "timeouts": timeouts})

    def resolve_retrieval(self, name: Name, profile: Name) -> ResolvedRetrieval:
        """Return the settings of a retrieval under a profile."""
        return self.retrieval[name].resolve_settings(self.profiles[profile].retrieval.get(name))

    @property
    def default_profile(self) -> Name:
        """The profile a session starts with."""
        return next(name for name, profile in self.profiles.items() if profile.default)

    @property
    def allowed_models(self) -> tuple[str, ...]:
        """The models that a session may use: those of its profiles, and those it allows."""
        named = (profile.model for profile in self.profiles.values())
        return tuple(dict.fromkeys((*named, *self.models.allow)))

    def resolve_view(self, name: Name) -> HistoryViewSpec:
        """Return a history view, with the settings it takes from its `like` view."""
        view = self.history[name]
        like = self.history.get(view.like or "")
        if like is None:
            return view
        own = {word: getattr(view, word) for word in view.model_fields_set}
        return like.model_copy(update=own)

    def resolve_condensing(self, name: Name, profile: Name) -> tuple[CondenseMode, ...]:
        """Return what a history view condenses under a profile, in this order.

        Turns that are to be summarised are never condensed.
        """
        view, own = self.resolve_view(name), self.profiles.get(profile)
        if own is not None and own.condense is not None and view.of != "selected":
            return own.condense
        return (view.condense,) if view.condense else ()

    @property
    def summary_calls(self) -> frozenset[Name]:
        """The calls that write summaries and answer no turn."""
        views = (view.summary for view in self.history.values())
        return frozenset(summary.call for summary in views if summary)

    def find_query_call(self, name: Name) -> Name | None:
        """Return the call that writes the queries of a retrieval, or None."""
        spec = self.retrieval.get(name)
        queries = spec.queries if spec else None
        return queries.call if isinstance(queries, CallQueries) else None

    def list_query_calls(self, profile: ProfileSpec) -> tuple[Name, ...]:
        """Return the calls that write queries in a turn of a profile, one for each retrieval."""
        named = (*profile.calls.values(), *self.list_reply_calls(profile))
        layers = {
            layer for name in named if name in self.calls for layer in self.calls[name].layers
        }
        specs = (self.layers.get(name) for name in layers)
        retrievals = {each.retrieval for each in specs if isinstance(each, RetrievalLayer)}
        return tuple(filter(None, map(self.find_query_call, sorted(retrievals))))

    def find_summary_view(self, name: Name) -> Name:
        """Return the view that defines the summary of a view: itself, or its `like` view."""
        view = self.history[name]
        return name if view.like is None or "summary" in view.model_fields_set else view.like


def list_retrieval_settings(blueprint: Blueprint) -> Iterator[SelectionSettings]:
    """Yield all settings of retrievals: for all profiles, of single ones, and locked."""
    for spec in blueprint.retrieval.values():
        yield from (spec, spec.lock)
    for profile in blueprint.profiles.values():
        yield from profile.retrieval.values()


def _list_reply_calls(profile: ProfileSpec, phases: PhasesSpec | None) -> tuple[Name, ...]:
    if phases is not None and profile.call == BY_PHASE:
        return tuple(phases.calls.values())
    return (profile.call,)


def encode_blueprint(blueprint: Blueprint) -> bytes:
    """Encode the JSON that a session pins, without fields that the author did not set."""
    return blueprint.model_dump_json(exclude_unset=True, by_alias=True).encode()


def compute_blueprint_digest(blueprint: Blueprint) -> Digest:
    """Return the digest of the encoded blueprint."""
    return compute_digest(encode_blueprint(blueprint))


def compute_history_reach(blueprint: Blueprint) -> int:
    """Return the most characters of history that any call can include; 0 if that is unbounded.

    Views of the whole history do not count, because they are folded from the first event anyway;
    nor do views of turns that are to be summarised.
    """
    looking = [call for call in blueprint.calls.values() if _has_bounded_history(blueprint, call)]
    budgets = [blueprint.budget.get(call.budget or "") for call in looking]
    widths = [_compute_budget_characters(found) if found else 0 for found in budgets]
    return max(widths, default=0) if all(widths) else 0


def _compute_budget_characters(budget: BudgetSpec) -> int:
    """Return the characters a budget has room for; 0 if an input may raise it."""
    if not isinstance(budget.tokens, int):
        return 0
    return budget.resolve_largest({}) * get_max_characters_per_token(budget.counter)


def _has_bounded_history(blueprint: Blueprint, call: CallSpec) -> bool:
    slots = (slot.history for slot in call.messages if isinstance(slot, HistoryMessageSlot))
    views = map(blueprint.resolve_view, slots)
    return any(not view.all and view.of != "selected" for view in views)
