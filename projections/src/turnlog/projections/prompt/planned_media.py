"""Pictures, recordings and files in a plan, and their parts of the manifest.

A part stands in the message of the text that it was submitted with. Where it is left out, a line in
its place says so. Texts of the message are not changed by either: the manifest has the part beside
them, with its place among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from turnlog.events.model.content_parts import TEXT_TYPE, MediaKind
from turnlog.events.model.manifest import EventTextSource, PromptPart, RequestDialect
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


def leave_out_unread(
    planned: Iterable[PlannedMedia], dialect: RequestDialect, counting: TokenCounter
) -> tuple[PlannedMedia, ...]:
    """Return media with a line in the place of each that the model of a dialect does not read.

    A plain text is sent as a text, which every model reads.
    """
    is_read = {"image": dialect.images, "audio": dialect.audio, "file": dialect.files}
    return tuple(
        each
        if is_read[each.kind] or each.ref.part.media_type == TEXT_TYPE
        else each.leave_out(_UNREAD_RULES[each.kind], counting)
        for each in planned
    )


def insert_media_parts(
    parts: Sequence[PromptPart], messages: Sequence[ChatMessage], planned: Iterable[PlannedMedia]
) -> tuple[PromptPart, ...]:
    """Return the parts of a prompt with those of its media, each after the texts of its message.

    `planned` are the media of all messages in their order.
    """
    found = list(parts)
    for part in _build_media_parts(messages, planned):
        before = (
            place
            for place, each in enumerate(found, 1)
            if each.message is not None and each.message <= (part.message or 0)
        )
        found.insert(max(before, default=0), part)
    return tuple(found)


def _build_media_parts(
    messages: Sequence[ChatMessage], planned: Iterable[PlannedMedia]
) -> Iterator[PromptPart]:
    placed = (
        (place, message, media) for place, message in enumerate(messages) for media in message.media
    )
    for (place, message, media), plan in zip(placed, planned, strict=True):
        yield PromptPart(
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
