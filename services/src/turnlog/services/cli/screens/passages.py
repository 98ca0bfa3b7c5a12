"""Prompts on a terminal: each layer with its source, and the left-out parts.

The texts are complete: they are exactly what the model was sent. The manifest lists the parts in
order with their lengths, so the text of each message can be attributed to them. Blank lines that
join two layers of one message are not shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turnlog.events.errors import Corrupt
from turnlog.events.manifest import HistorySource, Manifest, PromptPart, MessageRole
from turnlog.projections.window.request import ChatMessage


@dataclass(frozen=True, slots=True)
class PromptSpan:
    """The text that one part contributes to one message."""

    part: PromptPart
    message_index: int
    role: MessageRole
    text: str
    """The whole text that the part adds to the message."""

    @property
    def visible_text(self) -> str:
        """The text without the blank line that joins it to the part before."""
        before = self.part.before
        return self.text[len(before) - len(before.lstrip("\n")) :]


def split_prompt(messages: Sequence[ChatMessage], manifest: Manifest) -> tuple[PromptSpan, ...]:
    """Split a prompt into spans; raises `Corrupt` if the manifest's lengths do not add up."""
    found = tuple(_iterate_spans(messages, manifest))
    told = sum(part.characters for part in manifest.parts if part.message is not None)
    if sum(len(passage.text) for passage in found) != told:
        raise Corrupt("manifest", "its parts are not as long as the prompt's messages")
    return found


def _iterate_spans(messages: Sequence[ChatMessage], manifest: Manifest) -> Iterator[PromptSpan]:
    standing = [part for part in manifest.parts if part.message is not None]
    ends = [part.message for part in standing[1:]] + [len(messages)]
    begins = 0
    for part, end in zip(standing, ends, strict=False):  # Without parts there are no ends either.
        first = part.message or 0
        if isinstance(part.source, HistorySource):
            for place in range(first, end or 0):
                yield PromptSpan(part, place, messages[place].role, messages[place].content)
            continue
        text = messages[first].content[begins : begins + part.characters]
        begins = begins + part.characters if end == first else 0
        yield PromptSpan(part, first, messages[first].role, text)
