"""Which calls had a source in their prompt, and by which way; and erasures of sources.

What is erased is of the library: knowledge, segments and users' own prompts.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from turnlog.contract.payload_models import RequestModel, ResponseModel
from turnlog.contract.request_values import CommandReason
from turnlog.contract.value_names import ErasureStatus

UseHopKind = Literal["summary", "carried", "step", "reply", "parent", "child", "fork"]
"""What a source went through on its way to a prompt."""


class UseHopView(ResponseModel):
    """A text through which a source reached a prompt."""

    kind: UseHopKind
    """`summary` of turns that had it, `carried` into a phase from the one before, `step` of a plan
    that quotes it, `reply` that may repeat it, `parent` that asked with it, `child` that replied
    with it, or `fork` that has the same event.
    """
    session: str
    """The session of that text; of a fork, the session whose event the other one has too."""
    turn: int | None
    """The turn that the text is the reply or the request of; null for the others."""
    sequence: int | None
    """The event that holds the text; null for the others."""


class UseView(ResponseModel):
    """A call whose prompt had the source."""

    session: str
    """The session."""
    turn: int
    """The turn."""
    call: str
    """The call."""
    kind: str
    """The blueprint's name of this kind of call."""
    model: str
    """The model."""
    at: str
    """When its prompt was fixed, RFC 3339."""
    sequence: int
    """The event that fixed its prompt, of which `why` says more."""
    reply: bool
    """Whether its answer is the reply of the turn."""
    through: tuple[UseHopView, ...]
    """The way of the source, with as few texts as possible; empty where the prompt has the source
    itself.
    """


class UsePage(ResponseModel):
    """A page of calls that had a source: the newest session first, its calls in order."""

    source: str
    """The source, as it was asked for."""
    uses: tuple[UseView, ...]
    """The calls."""
    stopped: tuple[str, ...]
    """Sessions that an event stopped: uses in what came after it are missing until the event is
    released from quarantine.
    """
    next: str | None
    """The `after` of the next page; null on the last page."""


class EraseSourceRequest(RequestModel):
    """Erases texts of the library for good."""

    source: Annotated[str, Field(min_length=1, max_length=1_000)]
    """What is erased, in all versions: `document:COLLECTION/ENTRY`, `collection:COLLECTION`,
    `segment:NUMBER`, one version as `segment:NUMBER@VERSION`,
    `override:BLUEPRINT/CATEGORY/USER`, or `overrides:USER` for all own prompts of a user.
    """
    reason: CommandReason
    """The reason, recorded for good and never sealed: name no person."""
    dry_run: bool = False
    """Only says what would be erased."""


class ReachedSessionView(ResponseModel):
    """What of a session is under the keys of an erased text."""

    session: str
    """The session."""
    events: tuple[int, ...]
    """Sequences of its events under these keys: prompts and retrievals that had the text."""
    calls: tuple[str, ...]
    """The calls among them, whose prompts cannot be read or reproduced any more."""
    repeating_turns: tuple[int, ...]
    """The turns of these calls: their replies stay, and may repeat the text."""
    left: tuple[int, ...] = ()
    """Events that can still be opened although they should not; the checking pass found them."""


class SourceErasureReceipt(ResponseModel):
    """What an erasure in the library reaches, and how far it is."""

    family: str
    """The history that it is in: `knowledge`, `segments` or `prompt-overrides`."""
    source: str
    """What is erased."""
    erasure: int | None
    """Sequence of the event that began it; null for a plan."""
    ended: int | None
    """Sequence of the event that ended it: from then on nobody can open the words."""
    at: str | None
    """When it was begun; null for a plan."""
    by: str | None
    """Who asked for it; null for a plan."""
    reason: str
    """Why."""
    status: ErasureStatus
    """`planned`, `begun`, `erased`, or `incomplete` where the checking pass found words."""
    leaves: str
    """The keys that go, in the form of `sealedof`."""
    entries: tuple[str, ...]
    """The entries of knowledge that go."""
    events: tuple[int, ...]
    """Sequences of the events of the library that brought the texts."""
    left: tuple[int, ...]
    """Those of them that can still be opened although they should not."""
    sessions: tuple[ReachedSessionView, ...]
    """The sessions that had the text in a prompt or a retrieval."""
    generation: int | None
    """The generation of the keyring by which a copy of the earlier keys can still be opened until
    it is retired; null until it has ended.
    """
    record_before: str | None
    """Digest of the stored record of keys before."""
    record_after: str | None
    """Digest of the record after."""
    kept_elsewhere: tuple[str, ...]
    """What no erasure here can reach."""


class SourceErasure(ResponseModel):
    """The receipts of one request; a collection of many entries is erased in parts."""

    source: str
    """What was named."""
    receipts: tuple[SourceErasureReceipt, ...]
    """One for each part."""


class SourceErasureList(ResponseModel):
    """All erasures in the library of a tenant."""

    receipts: tuple[SourceErasureReceipt, ...]
    """Their receipts, family by family, in order."""
