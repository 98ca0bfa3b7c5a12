"""Events of the redaction family: withheld replies, withheld words of people, and erasures.

Windows and ordinary readers get the replacement from then on. The hash chain covers the stored
bytes, so that the words themselves stay in the log, where an audit reads them, until an erasure
removes the keys that they are sealed under.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from turnlog.events.content import Content, Digest, Words
from turnlog.events.event_model import EventModel

REDACTION_LEAF: Final = "redaction"
"""End of the subject of every redaction, so that a reader finds them without the other events."""

OPERATOR_RULE: Final = "operator"
"""The rule of what a person withholds."""


class ReplyRedacted(EventModel):
    """A reply is withheld; its replacement is used everywhere instead."""

    type: ClassVar[str] = "turnlog.reply-redacted.v1"
    leaf: ClassVar[str] = REDACTION_LEAF
    sentence: ClassVar[str] = "turn {turn} by {rule}: {reason}"

    turn: int
    """The turn of the reply."""
    reason: Words
    """The reason for people."""
    rule: str
    """The rule that caused it; `operator` for a person, who withholds what was shown before."""
    replacement: Content
    """The text used instead."""
    withheld: Digest | None = None
    """Blob of a text that was never recorded as a reply; only the audit role can read it. Its salt
    keeps the text from being guessed from this digest; earlier releases stored none.
    """
    outcomes: Words = ""
    """The tools that ran in the turn, each with its outcome, as later prompts include it; empty if
    none ran, or if the turn had ended before.
    """
    kept_results: tuple[int, ...] = ()
    """Sequences of the tool results that are not withheld with the reply: later prompts include
    them, and readers keep them. Rules judged each when it was recorded.
    """


class RedactedSpan(EventModel):
    """A part of a text that was replaced."""

    begin: int
    """Its start, in code points from 0."""
    end: int
    """Its end: the code point after its last one."""


class TextRedacted(EventModel):
    """What a person submitted with a turn is withheld, all of it or a part of its text.

    The inputs, references and metadata of the turn go with it, and what a resolver read in them.
    Pictures and files go with the whole text, and stay beside a part of it. A later event of the
    same turn withholds more.
    """

    type: ClassVar[str] = "turnlog.text-redacted.v1"
    leaf: ClassVar[str] = REDACTION_LEAF
    sentence: ClassVar[str] = "text of turn {turn} by {rule}: {reason}"

    turn: int
    """The turn of the text, which had ended before."""
    reason: Words
    """The reason for people."""
    rule: str
    """The rule that caused it; `operator` for a person."""
    replacement: Content
    """The text that stands instead: all of it, with what is left of the text."""
    spans: tuple[RedactedSpan, ...] = ()
    """The parts that were replaced, of the text that stood before; empty if all of it was."""


ERASURE_LEAF: Final = "erasure"
"""End of the subject of every event of an erasure."""

ErasedPart = Literal["text", "work", "turn"]
"""What of a turn is erased: what a person submitted with it, what came of it, or both."""


class ErasedTurn(EventModel):
    """A turn of which something is erased."""

    turn: int
    """The turn number."""
    of: ErasedPart
    """What of it."""


class ErasureOrigin(EventModel):
    """The erasure of another session that reaches this one, which has words of it."""

    session: str
    """The session whose words are erased."""
    sequence: int
    """Sequence of its own event there."""

    @property
    def name(self) -> str:
        """Its name, unique among all erasures of a tenant."""
        return f"{self.session}:{self.sequence}"


class ErasureBegun(EventModel):
    """The keys of some words are to be removed; from then on nobody relies on them.

    What it says is not sealed, so that it can be read when the keys are gone.
    """

    type: ClassVar[str] = "turnlog.erasure-begun.v1"
    leaf: ClassVar[str] = ERASURE_LEAF
    sentence: ClassVar[str] = "{leaves}: {reason}"

    leaves: str
    """The keys that are to be removed, or were in another session, in the form of `sealedof`:
    whatever is sealed under one of them cannot be opened any more.
    """
    turns: tuple[ErasedTurn, ...] = ()
    """The turns of which something is erased; empty where the whole session is."""
    reason: str
    """The reason for people; it is not sealed, so it names no person."""
    origin: ErasureOrigin | None = None
    """The erasure that this one follows from; None for one that was asked for."""
    reached: tuple[str, ...] = ()
    """The other sessions that have words of it: forks, and children that were asked with them."""
    with_replies: bool = False
    """Whether the replies of turns whose prompts had the words are erased too."""


class ContentErased(EventModel):
    """The keys are removed: nothing that was sealed under one of them can be opened any more."""

    type: ClassVar[str] = "turnlog.content-erased.v1"
    leaf: ClassVar[str] = ERASURE_LEAF
    sentence: ClassVar[str] = "by the erasure of event {begun}"

    begun: int
    """Sequence of the event that began it."""
    generation: int
    """The generation of the keyring under which copies of the earlier record can be unwrapped."""
    record_before: Digest
    """Digest of the stored record of the keys before."""
    record_after: Digest
    """Digest of the record after."""
    keys_left: Digest | None = None
    """Digest of the list of the keys that are left, each by its leaves and a digest of its own, as
    a signed receipt has it; earlier releases recorded none.
    """
    still_open: int | None = None
    """Sequence of the event that began the earliest other erasure of the session that has not
    ended; None if there is none.
    """


class SourceErasureBegun(EventModel):
    """The keys of some texts of a library are to be removed; from then on nobody finds these texts.

    What it says is not sealed, so that it can be read when the keys are gone.
    """

    type: ClassVar[str] = "turnlog.source-erasure-begun.v1"
    leaf: ClassVar[str] = ERASURE_LEAF

    leaves: str
    """The keys that are to be removed, in the form of `sealedof`: those of the events that brought
    the texts.
    """
    source: str
    """What is erased, as it was named: `document:handbook/returns`, `segment:12@3`."""
    reason: str
    """The reason for people; it is not sealed, so it names no person."""
    collection: str | None = None
    """The collection of the entries; None for what is no knowledge."""
    entries: tuple[str, ...] = ()
    """The ids of the entries: all of their texts are erased, and they are removed."""
    segment: int | None = None
    """The number of the segment whose texts are erased; None for what is no segment."""


class SourceErased(EventModel):
    """The keys are removed: nothing that was sealed under one of them can be opened any more."""

    type: ClassVar[str] = "turnlog.source-erased.v1"
    leaf: ClassVar[str] = ERASURE_LEAF

    begun: int
    """Sequence of the event that began it."""
    generation: int
    """The generation of the keyring under which copies of the earlier record can be unwrapped."""
    record_before: Digest
    """Digest of the stored record of the keys before."""
    record_after: Digest
    """Digest of the record after."""
    keys_left: Digest
    """Digest of the list of the keys that are left, each by its leaves and a digest of its own."""


SourceErasureEvent = SourceErasureBegun | SourceErased
"""The events by which texts of a library are erased, in the history of their family."""

SOURCE_FAMILY_FORM: Final = "FAMILY"
"""What stands for the family in documents: the events of erasures are in each that has words."""

RedactionEvent = ReplyRedacted | TextRedacted
"""The events that withhold something of a turn."""

ErasureEvent = ErasureBegun | ContentErased
"""The events by which keys of words are removed."""


def is_of_ended_turn(event: ReplyRedacted) -> bool:
    """Return whether the turn had ended before its reply was withheld."""
    return event.rule == OPERATOR_RULE and event.withheld is None
