from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from turnlog.projections.library.authored import place_flaws, text_flaws
from turnlog.projections.library.picked import Omitted, Wanted
from turnlog.projections.library.shelf import Segment, Shelf, Version


@dataclass(frozen=True, slots=True)
class Choice:
    """A segment, and the version that a session gets."""

    segment: Segment
    version: Version


@dataclass(frozen=True, slots=True)
class Chosen:
    """The selected segments of one request, and those that cannot be used."""

    choices: tuple[Choice, ...]
    omitted: tuple[Omitted, ...]


def choose(shelf: Shelf, wanted: Wanted, locales: Sequence[str], session: str) -> Chosen:
    """Select the segments of one request for a session.

    All segments come from the first locale of `locales` that has any, so that a layer never mixes
    two languages; segments without a locale are used if no locale has any.
    """
    numbers = shelf.places.get((wanted.scope, wanted.ref), ())
    segments = (shelf.segments[number] for number in numbers)
    choices = [each for segment in segments if (each := _chosen(segment, session))]
    omitted = {each.segment.id: fault for each in choices if (fault := _fault(each))}
    usable = [each for each in choices if each.segment.id not in omitted]
    return Chosen(_in_one_locale(usable, locales), tuple(omitted.values()))


def given(segment: Segment, session: str) -> Version | None:
    """Return the version of a segment that a session gets; None if all variants are switched off.
    """
    on = segment.on
    names = tuple(on)
    return on[names[_pick(session, names)]] if names else None


def _chosen(segment: Segment, session: str) -> Choice | None:
    version = given(segment, session)
    return Choice(segment, version) if version else None


def _pick(session: str, variants: Sequence[str]) -> int:
    """Pick by session alone: segments with the same variants all get the same one."""
    if len(variants) == 1:
        return 0
    digest = sha256("\n".join((session, *variants)).encode()).digest()
    return int.from_bytes(digest[:8]) % len(variants)


def _fault(choice: Choice) -> Omitted | None:
    segment, version = choice.segment, choice.version
    text = version.text
    found = (
        *place_flaws(segment.scope, segment.ref, segment.locale, version.variant),
        *text_flaws(text.tier, text.type, text.priority),
    )
    if not found:
        return None
    reason = f"version {version.version}: {found[0].field}: {found[0].what}"
    return Omitted(segment.scope, segment.ref, segment.id, reason)


def _in_one_locale(choices: Iterable[Choice], locales: Sequence[str]) -> tuple[Choice, ...]:
    written = [(_tag(each.segment.locale), each) for each in choices]
    for locale in _tried(locales):
        if found := tuple(each for tag, each in written if tag == locale):
            return found
    return ()


def _tried(locales: Sequence[str]) -> Iterator[str]:
    """Yield each locale and its parents, such as `pt-BR`, `pt`; the empty locale comes last."""
    for locale in locales:
        tag = _tag(locale)
        while tag:
            yield tag
            tag = tag.rpartition("-")[0]
    yield ""


def _tag(locale: str | None) -> str:
    return (locale or "").replace("_", "-").lower()
