"""Resolver specs: sessions found by a key, resolvers, and inherited references.

A resolver answers what a question refers to without a model. A reference is an identifier of an
earlier turn that a later turn may use without naming it. Both are only described here.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Discriminator, Field, Tag

from turnlog.events.event_model import build_discriminator
from turnlog.projections.blueprint.schema.strict_model import HttpAddress, Name, StrictModel

ASK_SESSION_KEY: Final = frozenset({"client_id", "conversation_id"})
"""The session key that the front door `ask` requires."""


class SessionKeySpec(StrictModel):
    """The key by which a session is found."""

    key: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Names of the key's values; the session id is a digest over them."""


class _ResolverBase(StrictModel):
    timeout_seconds: Annotated[float, Field(gt=0, le=300)] = 10.0
    """Timeout of one resolver request in seconds."""


class RegisteredResolverSpec(_ResolverBase):
    """A resolver that a package registers under `turnlog.resolvers`."""

    source: Annotated[str, Field(min_length=1)]
    """The name under which the resolver is registered."""


class HttpResolverSpec(_ResolverBase):
    """A resolver that is called over HTTP."""

    url: HttpAddress
    """Its address, without a user, a query or a fragment."""


ResolverSpec = Annotated[
    Annotated[RegisteredResolverSpec, Tag("(source)")] | Annotated[HttpResolverSpec, Tag("(url)")],
    Discriminator(
        build_discriminator("source", "url"),
        custom_error_type="resolver_kind",
        custom_error_message="a resolver has a `source` or a `url`",
    ),
]


class InheritanceSpec(StrictModel):
    """When a turn that does not name an identifier inherits it."""

    enabled: bool = True
    """True if the identifier can be inherited."""
    intents: tuple[str, ...] = ()
    """The intents for which it is inherited."""


class ReferencesSpec(StrictModel):
    """Identifiers that a turn may inherit from an earlier turn."""

    inherit: Annotated[dict[Name, InheritanceSpec], Field(min_length=1)]
    """Identifiers that a turn may inherit from the last answered turn."""
    allowed_entities: tuple[str, ...] = ()
    """Entities that both turns must be about; empty allows all."""
    max_age_turns: Annotated[int, Field(ge=0)] = 0
    """Maximum distance in turns; 0 means no limit."""

    def is_entity_allowed(self, entity: str | None) -> bool:
        """Return whether turns about this entity pass on and inherit references."""
        return not self.allowed_entities or entity in self.allowed_entities


class LastReferenceSpec(StrictModel):
    """Settings of a memory policy that replace those of the blueprint's references."""

    enable_last_ticker: bool | None = None
    """Whether `ticker` can be inherited."""
    allowed_entities: tuple[str, ...] | None = None
    """Entities that both turns must be about; empty allows all."""
    max_age_turns: Annotated[int, Field(ge=0)] | None = None
    """Maximum distance in turns; 0 means no limit."""

    def merge_into(self, references: ReferencesSpec) -> ReferencesSpec:
        """Return the references with the settings that are given here."""
        values = self.model_dump(
            include={"allowed_entities", "max_age_turns"}, exclude_none=True, round_trip=True
        )
        ticker = references.inherit.get("ticker")
        if ticker is not None and self.enable_last_ticker is not None:
            switched = ticker.model_copy(update={"enabled": self.enable_last_ticker})
            values["inherit"] = {**references.inherit, "ticker": switched}
        return references.model_copy(update=values)


FrontDoor = Literal["ask"]
"""`ask` is `POST /v1/ask`, whose request and response are fixed schemas."""
