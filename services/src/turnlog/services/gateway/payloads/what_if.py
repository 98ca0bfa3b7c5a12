"""What is asked and answered about a change that is only supposed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from turnlog.events.content import Digest
from turnlog.events.manifest import Counter
from turnlog.projections.audit.whatif.standing import How
from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.services.gateway.payloads.asked import Name
from turnlog.services.gateway.payloads.closed import Answer, Form

Place = Annotated[str, Field(min_length=1, max_length=300)]
EXACT = (
    "Exact for context, not for behaviour: it tells what each recorded call would have been given, "
    "with what was said as it was said. What a model would have answered to that, and what people "
    "would have said then, nobody knows."
)


class FolderForm(Form):
    """A blueprint's folder, brought along."""

    blueprint: Name
    """What the folder is called, and the blueprint in it."""
    files: Annotated[dict[Place, str], Field(max_length=1_000)]
    """Path within the folder to text: `blueprint.yaml`, prompt files, cartridges."""


class WhatIfForm(Form):
    """Supposes a change; nothing is written, and no model is asked."""

    sessions: Annotated[list[str], Field(min_length=1, max_length=10_000)] | None = None
    """Those to be told; without it all, or all of that blueprint where one is brought along."""
    blueprint: FolderForm | None = None
    """Another blueprint, with its files."""
    budget: Annotated[int, Field(ge=1, le=MAX_INT)] | None = None
    """Another number of tokens for whatever budget a call has."""
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Another model as litellm names it: its prompt files, its counter, its price."""


class SupposedBlueprint(Answer):
    """The blueprint that is supposed."""

    blueprint: str
    """Its name."""
    version: int
    """Its author's version."""
    digest: Digest
    """Digest of its structure."""


class Begun(Answer):
    """The first line: what is supposed, and of how many sessions."""

    line: Literal["begun"] = "begun"
    sessions: int
    """How many lines follow before the last."""
    behind: int
    """Events that the read models lacked when the sessions were listed; 0 where they were named."""
    blueprint: SupposedBlueprint | None
    """The blueprint that was brought along."""
    budget: int | None
    """The tokens that were asked for."""
    model: str | None
    """The model that was asked for."""
    exact: str = EXACT
    """What the figures are worth."""


class SideView(Answer):
    """What prompts came to, as they were or as they would have been."""

    tokens: int
    """Of all prompts together."""
    largest: int
    """Tokens of the largest."""
    prefix: int
    """Tokens that began as the call of its kind before, so that a provider's cache could reuse
    them."""
    models: Mapping[str, int]
    """Tokens by model."""
    counters: tuple[str, ...]
    """Who counted; figures of two counters are not of one measure."""
    micro_dollars: int
    """Price of the prompts alone, in millionths of a dollar, nothing of them being cached."""
    guessed: bool
    """Whether a model of them stands in no price table."""


class AlteredOftenView(Answer):
    """One thing that stands otherwise, and in how many calls."""

    layer: str
    """The blueprint's name for it; `history` is the one built in."""
    how: How
    """`cut` or `uncut` to fit, `gone`, `added`, or `changed`."""
    rule: str | None
    """The step or condition that did it."""
    calls: int
    """In so many calls."""
    pieces: int
    """So many turns, segments or texts over all of them."""


class RefusedOftenView(Answer):
    """One reason for which calls could not have been made."""

    code: str
    """`over-budget`, or what does not fit the record."""
    field: str
    """What is at fault, dotted."""
    calls: int
    """So many calls."""
    first: str
    """The first of them."""
    detail: str
    """What was wrong with that one."""


class AccountView(Answer):
    """What a change would have meant."""

    calls: int
    """Recorded."""
    again: int
    """Of those, the ones that could be assembled under the change; all sums are over these."""
    same: int
    """Of those, the ones whose request would have been the very same."""
    before: SideView
    """As they were."""
    after: SideView
    """As they would have been."""
    altered: tuple[AlteredOftenView, ...]
    """What would have stood otherwise, the most first."""
    refused: tuple[RefusedOftenView, ...]
    """Why calls could not have been made, the most first."""


class SupposedPrompt(Answer):
    """One prompt's size, and how it came to it."""

    kind: str
    """The blueprint's name for this kind of call."""
    model: str
    """The model."""
    tokens: int
    """By its counter."""
    counter: Counter
    """Who counted."""
    budget: int | None
    """Tokens allowed."""
    prefix: int | None
    """Tokens that begin as the call before; null for the first of its kind."""
    digest: Digest
    """Of the request."""


class AlteredView(Answer):
    """Something of a prompt that stands otherwise."""

    layer: str
    """The layer."""
    how: How
    """In which way."""
    rule: str | None
    """By which step or condition."""
    first: int | None
    """First turn of a run of history."""
    last: int | None
    """Its last turn."""
    segment: int | None
    """A segment of the library."""


class LayerSizeView(Answer):
    """A layer that stands in the way."""

    layer: str
    """The layer."""
    tokens: int
    """What it takes."""


class MisfitView(Answer):
    """Why a call could not have been made."""

    code: str
    """In a word, for programs."""
    detail: str
    """For people."""
    field: str | None
    """What is at fault."""
    fix: str
    """The way out."""
    over: int | None = None
    """By how many tokens it does not fit its budget."""
    limit: int | None = None
    """What that allows."""
    section: str | None = None
    """The layer whose own limit it is; null where it is another's."""
    component: str | None = None
    """The component whose own limit it is; null where it is another's."""
    kept: tuple[LayerSizeView, ...] = ()
    """The layers that are always kept, and do not fit."""


class CallSupposed(Answer):
    """A recorded call, and what it would have been."""

    call: str
    """The call."""
    turn: int
    """Its turn."""
    sequence: int
    """Of the event that fixed its prompt."""
    before: SupposedPrompt
    """As it was."""
    after: SupposedPrompt | None
    """As it would have been; null where it could not have been made."""
    altered: tuple[AlteredView, ...]
    """What would have stood otherwise in it."""
    refused: MisfitView | None
    """Why it could not have been made."""


class SessionSupposed(AccountView):
    """The line of one session."""

    line: Literal["session"] = "session"
    session: str
    """Its id."""
    sequence: int
    """Its last event."""
    blueprint: str
    """The blueprint it is made from."""
    version: int
    """Of which version, at last."""
    worst: tuple[CallSupposed, ...]
    """The calls that would have been otherwise, the worst first, as far as they are told."""
    badness: tuple[int, ...]
    """Order sessions by this, the greatest first: calls that could not be made, what is cut,
    tokens of a cache lost, tokens gained."""


class SessionUntold(Answer):
    """The line of a session that cannot be told."""

    line: Literal["untold"] = "untold"
    session: str
    """Its id."""
    code: str
    """`corrupt` or `unknown-session`."""
    detail: str
    """What is wrong with it."""


class Ended(AccountView):
    """The last line: all sessions together."""

    line: Literal["ended"] = "ended"
    sessions: int
    """Sessions told."""
    untold: int
    """Sessions that could not be."""


Line = Annotated[Begun | SessionSupposed | SessionUntold | Ended, Field(discriminator="line")]
"""One line of the answer."""
