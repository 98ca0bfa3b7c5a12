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
    return {thing: (turned[what], reasons) for thing, (what, reasons) in _iterate_changes(now, was)}


def _iterate_changes(
    was: TrackedFacts, now: TrackedFacts
) -> Iterator[tuple[tuple[str, ...], tuple[str, DiffReasons]]]:
    yield from _iterate_turn_changes(was, now)
    yield from _iterate_segment_changes(was, now)
    turn_events = _find_turn_events(was, now)
    if was.text != now.text:
        yield ("input",), ("changed", turn_events)
    if what := _classify_text_change(was.mood, now.mood):
        yield ("mood",), (what, turn_events)
    if not was.turns and now.turns:
        first = min(tracked.completed or 0 for tracked in now.turns.values())
        yield ("opening",), ("removed", frozenset({("answered", first)}))
    if was.phase[0] != now.phase[0]:
        yield ("where",), ("changed", frozenset({("phase", now.phase[1])}))
    if new := now.choices[len(was.choices) :]:
        chosen = frozenset(("choice", at) for _, at in new)
        yield ("path",), ("changed" if was.choices else "added", chosen)
    for layer, old_note, new_note in (
        ("note", was.note, now.note),
        ("text_note", was.text_note, now.text_note),
    ):
        if old_note is None and new_note is not None:
            yield (layer,), ("added", frozenset({("redacted", new_note)}))
        if old_note is not None and new_note is None and now.told:
            yield (layer,), ("removed", frozenset({("told", now.told)}))


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
    for turn, tracked in now.turns.items():
        before = was.turns.get(turn)
        thing = ("turn", str(turn))
        was_included, is_included = bool(before and not before.excluded), not tracked.excluded
        if was_included and not is_included:
            yield thing, ("removed", frozenset({("excluded", tracked.marked or 0)}))
        elif is_included and not was_included:
            yield thing, ("added", _find_turn_reasons(before, tracked))
        elif is_included and before and (redactions := _find_redactions(before, tracked)):
            yield thing, ("changed", redactions)


def _find_turn_reasons(before: TrackedTurn | None, tracked: TrackedTurn) -> DiffReasons:
    restored = tracked.marked is not None
    since = ("restored", tracked.marked) if restored else ("answered", tracked.completed)
    return frozenset({(since[0], since[1] or 0)}) | _find_redactions(before, tracked)


def _find_redactions(before: TrackedTurn | None, tracked: TrackedTurn) -> DiffReasons:
    """Return the redactions of a turn that came since."""
    of_reply = tracked.redacted if not (before and before.redacted) else None
    of_text = tracked.text_redacted if not (before and before.text_redacted) else None
    return frozenset(("redacted", at) for at in (of_reply, of_text) if at is not None)


def _iterate_segment_changes(
    was: TrackedFacts, now: TrackedFacts
) -> Iterator[tuple[tuple[str, ...], tuple[str, DiffReasons]]]:
    for number, segment in now.shelf.items():
        before = was.shelf.get(number)
        was_shown, is_shown = _is_segment_shown(before, was), _is_segment_shown(segment, now)
        layer = "people" if segment.ref else "lore"
        thing = (layer, str(number))
        if was_shown != is_shown:
            yield (
                thing,
                (
                    "added" if is_shown else "removed",
                    _find_segment_reasons(before, segment, was, now),
                ),
            )
        elif (
            is_shown
            and before
            and before.version != segment.version
            and before.text != segment.text
        ):
            yield thing, ("changed", frozenset({("library", segment.written)}))


def _is_segment_shown(segment: TrackedSegment | None, world: TrackedFacts) -> bool:
    if segment is None or not segment.active:
        return False
    return segment.ref is None or segment.tier <= world.people.get(segment.ref, -1)


def _find_segment_reasons(
    before: TrackedSegment | None, segment: TrackedSegment, was: TrackedFacts, now: TrackedFacts
) -> DiffReasons:
    requested = [segment.ref is None or segment.ref in world.people for world in (was, now)]
    active = [bool(before and before.active), segment.active]
    if requested[0] == requested[1] and active[0] != active[1]:
        return frozenset({("library", segment.switched)})
    return _find_turn_events(was, now)
