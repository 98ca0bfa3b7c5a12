"""What may be sent: to open a session, to submit a turn, to act on either."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from turnlog.projections.blueprint.keys import MOST_CHARACTERS
from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.services.gateway.payloads.closed import Form

Values = dict[str, JsonValue]
Name = Annotated[str, Field(min_length=1, max_length=64)]
Reason = Annotated[str, Field(min_length=1, max_length=1_000)]
MODEL = r"^[A-Za-z0-9][A-Za-z0-9_.:@-]*(/[A-Za-z0-9_.:@-]+)*$"
"""What names a model, and no place."""
TurnNumber = Annotated[int, Field(ge=1, le=MAX_INT)]


class OpenForm(Form):
    """Opens a session."""

    blueprint: Name
    """Name of the blueprint the session is made from."""
    attributes: Values = {}
    """What the blueprint takes at opening; see `/v1/blueprints/{blueprint}`."""
    session: str | None = None
    """An id of one's own, 1 to 64 of `A-Z a-z 0-9 _ -`; without it one is made."""
    profile: Name | None = None
    """A profile of the blueprint; without it the default one."""
    key: dict[str, str] | None = None
    """What it is found by, or opened, where its blueprint takes a key; any characters."""


class ForkForm(Form):
    """Forks a session."""

    at: Annotated[int, Field(ge=1, le=MAX_INT)]
    """The last event that the fork has in common with it."""
    session: str | None = None
    """An id of one's own, 1 to 64 of `A-Z a-z 0-9 _ -`; without it one is made."""


class TurnForm(Form):
    """Submits a turn."""

    text: Annotated[str, Field(min_length=1)] | None = None
    """What is said; left out only to have a debrief again that failed or was cancelled."""
    inputs: Values = {}
    """What the blueprint takes beside the text."""
    references: Values = {}
    """Identifiers the turn mentions."""
    meta: Values = {}
    """Kept, never interpreted."""


class AskForm(Form):
    """Asks a question of a conversation, which is opened by the first one."""

    question: Annotated[str, Field(min_length=1)]
    """What is asked."""
    conversation_id: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    """Which conversation of the client's; any characters."""
    nickname: Annotated[str, Field(max_length=200)]
    """What the asker is called; kept, never interpreted."""
    client_id: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    """Who asks; any characters."""


class ReferenceForm(Form):
    """Asks what a turn would mean."""

    intent: Annotated[str, Field(max_length=128)] | None = None
    """What would be wanted."""
    entity: Annotated[str, Field(max_length=128)] | None = None
    """What kind of thing it would be about."""
    identifiers: Values = {}
    """What it would say by itself."""


class TryForm(Form):
    """Tries what a call would see; nothing of it is kept."""

    text: Annotated[str, Field(min_length=1)] | None = None
    """What would be said."""
    inputs: Values = {}
    """What the blueprint takes beside the text."""
    call: Name | None = None
    """The kind of call; without it the one that would be made."""
    budget: Annotated[int, Field(ge=1, le=MAX_INT)] | None = None
    """Tokens the prompt may have; without it those of the blueprint."""
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """A model as litellm names it, for its prompt files, its counter and its price."""


class CancelForm(Form):
    """Gives up a turn."""

    turn: TurnNumber | None = None
    """An open or a waiting turn; without it the open one."""


class CloseForm(Form):
    """Closes a session."""

    reason: Reason = "closed on request"
    """Why; kept with the event."""


class RedactForm(Form):
    """Withholds the reply of a turn."""

    turn: TurnNumber
    """The turn."""
    reason: Reason
    """Why; kept with the event, and shown."""
    replacement: Annotated[str, Field(min_length=1)] | None = None
    """What stands in its place; without it the blueprint's own words."""


class DisplayForm(Form):
    """Keeps how a turn is to be looked at, beside its plain text."""

    text: Annotated[str, Field(min_length=1)] | None = None
    """How what was said is drawn, as HTML for example; without it that stays as it was."""
    reply: Annotated[str, Field(min_length=1)] | None = None
    """How the reply is drawn; without it that stays as it was."""


class ChoiceForm(Form):
    """Makes a choice of a phase."""

    choice: Name
    """One that the phase offers."""


class ProfileForm(Form):
    """Switches to another profile, or to another model."""

    profile: Name | None = None
    """A profile of the session's blueprint; without it the present one."""
    model: Annotated[str, Field(max_length=200, pattern=MODEL)] | None = None
    """A model as litellm names it; without it the profile's own, whatever was asked for before."""


class SignalForm(Form):
    """Ends a phase by a signal, or moves to another by its name."""

    signal: Name | None = None
    """One that the phase offers now."""
    to: Name | None = None
    """A phase, where the blueprint lets callers move between them."""
    carry: Annotated[str, Field(min_length=1, max_length=20_000)] | None = None
    """What the next phase is told of this one; only forward, and in no other phase."""
