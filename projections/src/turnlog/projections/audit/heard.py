"""Rebuilds the inputs of `assemble` for every recorded call of a session.

`SessionReplay` folds a session from its first event. Just before each event that fixed a prompt,
the state is the one that the prompt was assembled from; later redactions, exclusions and erasures
have no effect on it. The module is independent of the services' loader of prompt inputs on purpose:
it is the second way to a prompt. It compares no digests; the caller who assembles the prompt does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from turnlog.events.content import PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.projections.session.state import TextRef


@dataclass(frozen=True, slots=True, eq=False)
class RecordedTexts(Mapping[TextRef, str]):
    """The texts of a session by the event field they are stored in, each read once.

    Raises `Corrupt` for a text that is no longer there.
    """

    events: Sequence[RecordedEvent]
    """The events of the session so far, in order and without a gap."""
    _cache: dict[TextRef, str] = field(default_factory=dict[TextRef, str])

    def __getitem__(self, said: TextRef) -> str:
        text = self._cache.get(said)
        if text is None:
            text = self._cache[said] = self._read_text(said)
        return text

    def __iter__(self) -> Iterator[TextRef]:
        return iter(self._cache)

    def __len__(self) -> int:
        return len(self._cache)

    def get_event(self, sequence: int) -> RecordedEvent:
        """Return an event by its sequence; raise `Corrupt` if there is none."""
        place = sequence - self.events[0].sequence
        if not 0 <= place < len(self.events) or self.events[place].sequence != sequence:
            raise Corrupt(f"event {sequence}", "it is not among the events of the session")
        return self.events[place]

    def _read_text(self, said: TextRef) -> str:
        content = getattr(self.get_event(said.sequence).event, said.field, None)
        if not isinstance(content, PlainText):
            raise Corrupt(f"event {said.sequence}", f"its {said.field} cannot be read any more")
        return content.text
