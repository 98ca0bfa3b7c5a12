"""Pictures, recordings and files in a plan, and their parts of the manifest.

A part stands in the message of the text that it was submitted with. Where it is left out, a line in
its place says so. Texts of the message are not changed by either: the manifest has the part beside
them, with its place among them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from operator import attrgetter
from typing import Final

from turnlog.events.model.content_parts import TEXT_TYPE, MediaKind, MediaPart
from turnlog.events.model.manifest import (
    EventTextSource,
    LeftOutPart,
    PromptPart,
    RequestDialect,
)
from turnlog.projections.blueprint.media_tokens import count_media_tokens
from turnlog.projections.blueprint.schema.layer_specs import MEDIA_COMPONENT, MEDIA_LAYER
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.chat_request import ChatMessage
from turnlog.projections.prompt.message_media import MessageMedia, format_media_note
from turnlog.projections.session.text_refs import MediaRef

_UNREAD_RULES: Final[Mapping[MediaKind, str]] = {
    "image": "no_images",
    "audio": "no_audio",
    "file": "no_files",
}
"""The rules of parts that the model does not read."""

ESTIMATE_RULE: Final = "estimate"
"""The rule of a part that is included: its tokens are estimated by the provider's rule."""


_CHARACTERS_PER_TOKEN: Final = 4
"""Characters that a token of a picture, a recording or a file counts as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMedia:
    """A picture, a recording or a file in a prompt, or the line in its place."""

    ref: MediaRef
    tokens: int
    saved: int = 0
    """Tokens that leaving it out saves."""
    rule: str = ESTIMATE_RULE
    """Why a line stands in its place."""
    note: str | None = None
    """The line in its place; None if it is included."""

    @property
    def kind(self) -> MediaKind:
        """What it is."""
        return self.ref.part.kind

    @property
    def characters(self) -> int:
        """Its length in the prompt; that of a part which is no text is taken from its tokens."""
        return _CHARACTERS_PER_TOKEN * self.tokens if self.note is None else len(self.note)

    @property
    def source(self) -> EventTextSource:
        """The field of the event that names its bytes."""
        return EventTextSource(sequence=self.ref.sequence, field=self.ref.field)

    def place_in_message(self, at: int) -> MessageMedia:
        """Return what a message has of it at a place in its text."""
        part = self.ref.part
        return MessageMedia(
            kind=part.kind,
            digest=part.digest,
            media_type=part.media_type,
            at=at,
            name=part.name,
            note=self.note,
            size=part.size,
        )

    def leave_out(self, rule: str, counting: TokenCounter) -> PlannedMedia:
        """Return the line in the place of the part."""
        if self.note is not None:
            return self
        note = format_media_note(self.kind, self.ref.part.name)
        tokens = counting.count_tokens(note)
        saved = max(0, self.tokens - tokens)
        return replace(self, tokens=tokens, saved=saved, rule=rule, note=note)


def plan_media(refs: Iterable[MediaRef], model: str) -> tuple[PlannedMedia, ...]:
    """Return the media of a turn, all included, with their tokens for a model."""
    return tuple(PlannedMedia(ref=ref, tokens=count_media_tokens(ref.part, model)) for ref in refs)


def is_read_by(part: MediaPart, dialect: RequestDialect) -> bool:
    """Return whether the model of a dialect reads a picture, a recording or a file.

    A plain text is sent as a text, which every model reads.
    """
    kinds = {"image": dialect.images, "audio": dialect.audio, "file": dialect.files}
    return kinds[part.kind] or part.media_type == TEXT_TYPE


def leave_out_unread(
    planned: Iterable[PlannedMedia], dialect: RequestDialect, counting: TokenCounter
) -> tuple[PlannedMedia, ...]:
    """Return media with a line in the place of each that the model of a dialect does not read."""
    return tuple(
        each
        if is_read_by(each.ref.part, dialect)
        else each.leave_out(_UNREAD_RULES[each.kind], counting)
        for each in planned
    )


def build_media_parts(
    messages: Sequence[ChatMessage], planned: Iterable[PlannedMedia]
) -> list[PromptPart]:
    """Return the parts of all media; `planned` are those of all messages in their order."""
    placed = (
        (place, message, media) for place, message in enumerate(messages) for media in message.media
    )
    return [
        PromptPart(
            layer=MEDIA_LAYER,
            component=MEDIA_COMPONENT,
            item=media.name,
            source=plan.source,
            message=place,
            at=media.at,
            role=message.role,
            digest=media.digest,
            characters=len(media.note or ""),
            tokens=plan.tokens,
            saved=plan.saved,
            treatment="kept" if media.note is None else "dropped",
            rule=plan.rule,
        )
        for (place, message, media), plan in zip(placed, planned, strict=True)
    ]


def insert_media_parts(
    parts: Iterable[PromptPart], media_parts: Iterable[PromptPart], *, joins: bool
) -> Iterator[PromptPart]:
    """Yield the parts of a prompt with those of its media, each after the texts of its message.

    With `joins`, those that were left out one after the other are one part.
    """
    rest, excluded = deque(media_parts), list[PromptPart]()
    if not rest:
        yield from parts
        return
    for part in parts:
        if part.message is None:
            excluded.append(part)
            continue
        before = [rest.popleft() for _ in range(_count_before(rest, part.message))]
        yield from _join_omissions(before) if joins else before
        yield from excluded
        yield part
        excluded = []
    yield from _join_omissions(rest) if joins else rest
    yield from excluded


def _count_before(parts: Iterable[PromptPart], message: int) -> int:
    """Return how many parts at the beginning are of an earlier message."""
    return sum(1 for _ in takewhile(lambda each: (each.message or 0) < message, parts))


def _join_omissions(parts: Iterable[PromptPart]) -> Iterator[PromptPart]:
    for (treatment, *_), group in groupby(parts, attrgetter("treatment", "rule", "role")):
        first, *others = group
        if treatment != "dropped" or not others:
            yield from (first, *others)
            continue
        sums = {
            name: sum(getattr(each, name) for each in (first, *others))
            for name in ("characters", "tokens", "saved")
        }
        yield first.model_copy(update={**sums, "others": tuple(map(_shorten_part, others))})


def _shorten_part(part: PromptPart) -> LeftOutPart:
    match part:
        case PromptPart(message=int(message), at=int(at), source=EventTextSource() as source):
            return LeftOutPart(
                message=message,
                at=at,
                sequence=source.sequence,
                field=source.field,
                tokens=part.tokens,
            )
        case _:
            raise TypeError(f"{part.layer} is no picture in a message")


def split_omissions(part: PromptPart) -> Iterator[PromptPart]:
    """Yield a part, and one for each that it lists with itself.

    What they saved, and their lengths, are known of all together and left to the first.
    """
    listed = sum(each.tokens for each in part.others)
    yield part.model_copy(update={"tokens": part.tokens - listed, "others": ()}) if listed else part
    for each in part.others:
        source = EventTextSource(sequence=each.sequence, field=each.field)
        own = {"source": source, "message": each.message, "at": each.at, "tokens": each.tokens}
        unknown = {"item": None, "digest": None, "characters": 0, "saved": 0, "others": ()}
        yield part.model_copy(update={**own, **unknown})
