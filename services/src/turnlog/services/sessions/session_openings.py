"""How sessions were opened, by which those who follow all sessions select some.

What a session was opened with never changes, so whether its events are selected does not either. A
coordinator's children are opened with the blueprint and the attributes of their parent, and are
selected with it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from turnlog.events.model.session_events import SessionOpened
from turnlog.events.store.ports import EventLog

MAX_KNOWN_OPENINGS: Final = 10_000
"""Sessions of which a process remembers how they were opened."""

ANY_ENDING: Final = "*"
"""At the end of a session's id: whatever follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSelection:
    """Which sessions: those that meet all that is given."""

    session: str | None = None
    """The id, or how it begins if `*` is behind."""
    blueprint: str | None = None
    """The name of the blueprint that the session was opened with."""
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values of attributes that the session was opened with, as text."""

    def has_selected_id(self, session: str) -> bool:
        """Return whether the id of a session is one that is meant."""
        if self.session is None:
            return True
        if self.session.endswith(ANY_ENDING):
            return session.startswith(self.session.removesuffix(ANY_ENDING))
        return session == self.session

    @property
    def asks_for_opening(self) -> bool:
        """Whether it has to be known how a session was opened."""
        return self.blueprint is not None or bool(self.attributes)


@dataclass(frozen=True, slots=True)
class RecordedOpening:
    """How a session was opened, as far as a selection asks."""

    blueprint: str
    attributes: Mapping[str, JsonValue]

    def is_selected_by(self, selection: SessionSelection) -> bool:
        """Return whether a session that was opened so is selected."""
        return selection.blueprint in {None, self.blueprint} and all(
            self._has_attribute(name, value) for name, value in selection.attributes.items()
        )

    def _has_attribute(self, name: str, value: str) -> bool:
        """Return whether an attribute has a value, or one with this form in JSON."""
        if name not in self.attributes:
            return False
        actual = self.attributes[name]
        return value == actual or (
            not isinstance(actual, str) and value == json.dumps(actual, ensure_ascii=False)
        )


@dataclass(frozen=True, slots=True)
class SessionOpenings:
    """How sessions were opened, read once for each and remembered for the latest."""

    log: EventLog
    _known: OrderedDict[tuple[str, str], RecordedOpening | None] = field(
        default_factory=OrderedDict[tuple[str, str], RecordedOpening | None]
    )

    async def has_selected_session(
        self, tenant: str, session: str, selection: SessionSelection
    ) -> bool:
        """Return whether a session is selected."""
        if not selection.has_selected_id(session):
            return False
        if not selection.asks_for_opening:
            return True
        opening = await self._find_opening(tenant, session)
        return opening is not None and opening.is_selected_by(selection)

    async def _find_opening(self, tenant: str, session: str) -> RecordedOpening | None:
        key = (tenant, session)
        if key not in self._known:
            first = await self.log.read_next_events(tenant, session, None, 1)
            opened = first[0].event if first else None
            self._known[key] = (
                RecordedOpening(opened.blueprint.name, opened.attributes)
                if isinstance(opened, SessionOpened)
                else None
            )
            while len(self._known) > MAX_KNOWN_OPENINGS:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]
