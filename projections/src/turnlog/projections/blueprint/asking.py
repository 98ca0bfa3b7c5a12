"""Asking as an author writes it: sessions found by a key, resolvers, and inherited references.

A resolver answers a question without a model; a reference is what an earlier turn was about and
a later one may mean without saying so. Both are data here, and carried out elsewhere.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Discriminator, Field, Tag

from turnlog.events.forms import form_by
from turnlog.projections.blueprint.strict import Address, Name, Strict

ASKED_BY: Final = frozenset({"client_id", "conversation_id"})
"""What the front door `ask` finds a session by."""


class SessionSpec(Strict):
    """How a session is found."""

    key: Annotated[tuple[Name, ...], Field(min_length=1)]
    """Names of what it is found by; its id is a digest of what they stand for."""


class _Resolver(Strict):
    timeout_seconds: Annotated[float, Field(gt=0, le=300)] = 10.0
    """How long it may take."""


class RegisteredResolver(_Resolver):
    """One that a package registers under `turnlog.resolvers`."""

    source: Annotated[str, Field(min_length=1)]
    """The name it is registered by."""


class AddressedResolver(_Resolver):
    """One that is asked over HTTP."""

    url: Address
    """Its address, without a user, a query or a fragment."""


ResolverSpec = Annotated[
    Annotated[RegisteredResolver, Tag("(source)")] | Annotated[AddressedResolver, Tag("(url)")],
    Discriminator(
        form_by("source", "url"),
        custom_error_type="resolver_kind",
        custom_error_message="a resolver has a `source` or a `url`",
    ),
]


class Inherited(Strict):
    """When a turn that names none inherits an identifier."""

    enabled: bool = True
    """Whether it ever does."""
    intents: tuple[str, ...] = ()
    """For which intents."""


class ReferencesSpec(Strict):
    """What a turn may mean without saying it."""

    inherit: Annotated[dict[Name, Inherited], Field(min_length=1)]
    """Identifiers that later turns may inherit from the last one that was answered."""
    allowed_entities: tuple[str, ...] = ()
    """Of which entity both turns must be; empty for any."""
    max_age_turns: Annotated[int, Field(ge=0)] = 0
    """How many turns later at the most; 0 is without end."""

    def allows(self, entity: str | None) -> bool:
        """Tell whether turns of this entity give and take references."""
        return not self.allowed_entities or entity in self.allowed_entities


FrontDoor = Literal["ask"]
"""`ask` is `POST /v1/ask`, whose payload is closed both ways."""
