"""The diff that two calls must have, derived only from what the generator did between them."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.generators.tracked_session import (
    TrackedFacts,
    TrackedSegment,
    TrackedSession,
    TrackedTurn,
)

DiffReasons = frozenset[tuple[str, int]]
"""Cause and event sequence of each reason."""

ExpectedDiff = dict[tuple[str, ...], tuple[str, DiffReasons]]
"""What changed, mapped to how it changed and why."""


def derive_expected_diff(led: TrackedSession, before: str, after: str) -> ExpectedDiff:
    """Return what differs between two calls of a session, named in either order."""
    was, now = led.calls[before], led.calls[after]
    if was.fixed <= now.fixed:
        return dict(_iterate_changes(was, now))
    turned = {"added": "removed", "removed": "added", "changed": "changed"}
    return {thing: (turned[what], why) for thing, (what, why) in _iterate_changes(now, was)}


def _iterate_changes(
    was: TrackedFacts, now: TrackedFacts
) -> Iterator[tuple[tuple[str, ...], tuple[str, DiffReasons]]]:
    yield from _iterate_turn_changes(was, now)
    yield from _iterate_segment_changes(was, now)
    asked = _find_turn_events(was, now)
    if was.text != now.text:
        yield ("input",), ("changed", asked)
    if what := _classify_text_change(was.mood, now.mood):
        yield ("mood",), (what, asked)
    if not was.turns and now.turns:
        first = min(told.completed or 0 for told in now.turns.values())
        yield ("opening",), ("removed", frozenset({("answered", first)}))
    if was.phase[0] != now.phase[0]:
        yield ("where",), ("changed", frozenset({("phase", now.phase[1])}))
    if new := now.choices[len(was.choices) :]:
        chosen = frozenset(("choice", at) for _, at in new)
        yield ("path",), ("changed" if was.choices else "added", chosen)
    if was.note is None and now.note is not None:
        yield ("note",), ("added", frozenset({("redacted", now.note)}))
    if was.note is not None and now.note is None and now.told:
        yield ("note",), ("removed", frozenset({("told", now.told)}))


def _find_turn_events(was: TrackedFacts, now: TrackedFacts) -> DiffReasons:
    """Return the events of the later call's own turn that follow the earlier call."""
    return frozenset(("said", at) for at in now.asked if at > was.fixed)


def _classify_text_change(was: str | None, now: str | None) -> str | None:
    if not was and not now:
        return None
    return "added" if not was else "removed" if not now else None if was == now else "changed"


def _iterate_turn_changes(
    was: TrackedFacts, now: TrackedFacts
) -> Iterator[tuple[tuple[str, ...], tuple[str, DiffReasons]]]:
    for turn, told in now.turns.items():
        before = was.turns.get(turn)
        thing = ("turn", str(turn))
        stood, stands = bool(before and not before.excluded), not told.excluded
        if stood and not stands:
            yield thing, ("removed", frozenset({("excluded", told.marked or 0)}))
        elif stands and not stood:
            yield thing, ("added", _find_turn_reasons(before, told))
        elif stands and before and told.redacted and not before.redacted:
            yield thing, ("changed", frozenset({("redacted", told.redacted)}))


def _find_turn_reasons(before: TrackedTurn | None, told: TrackedTurn) -> DiffReasons:
    restored = told.marked is not None
    since = ("restored", told.marked) if restored else ("answered", told.completed)
    new = told.redacted if not (before and before.redacted) else None
    return frozenset({(since[0], since[1] or 0), *([("redacted", new)] if new else [])})


def _iterate_segment_changes(
    was: TrackedFacts, now: TrackedFacts
) -> Iterator[tuple[tuple[str, ...], tuple[str, DiffReasons]]]:
    for number, held in now.shelf.items():
        before = was.shelf.get(number)
        stood, stands = _is_segment_shown(before, was), _is_segment_shown(held, now)
        layer = "people" if held.ref else "lore"
        thing = (layer, str(number))
        if stood != stands:
            yield (
                thing,
                ("added" if stands else "removed", _find_segment_reasons(before, held, was, now)),
            )
        elif stands and before and before.version != held.version and before.text != held.text:
            yield thing, ("changed", frozenset({("library", held.written)}))


def _is_segment_shown(held: TrackedSegment | None, world: TrackedFacts) -> bool:
    if held is None or not held.active:
        return False
    return held.ref is None or held.tier <= world.people.get(held.ref, -1)


def _find_segment_reasons(
    before: TrackedSegment | None, held: TrackedSegment, was: TrackedFacts, now: TrackedFacts
) -> DiffReasons:
    asked = [held.ref is None or held.ref in world.people for world in (was, now)]
    given = [bool(before and before.active), held.active]
    if asked[0] == asked[1] and given[0] != given[1]:
        return frozenset({("library", held.switched)})
    return _find_turn_events(was, now)
