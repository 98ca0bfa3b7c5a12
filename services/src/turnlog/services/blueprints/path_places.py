"""The places where a file may be whose path contains attributes: `{locale}/{task}.md`.

A slot is the value of its attribute. An attribute that is a locale stands for each of its fallbacks
in turn, however a folder or a file spells it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import product
from pathlib import PurePosixPath

from pydantic import JsonValue

from turnlog.projections.blueprint.locale_tags import iterate_locale_fallbacks, list_tag_spellings
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.template_slots import (
    fill_slots,
    find_slots,
    format_prompt_value,
)
from turnlog.services.blueprints.folder_files import FolderFiles


def list_locale_attributes(blueprint: Blueprint) -> frozenset[str]:
    """Return the attributes that are locales."""
    return frozenset(name for name, spec in blueprint.attributes.items() if spec.type == "locale")


def iterate_places(
    path: str, values: Mapping[str, JsonValue], locales: Collection[str]
) -> Iterator[tuple[str, ...]]:
    """Yield the places to try in order, each as the spellings of its path, the usual one first.

    There is none where a slot has no value, except for a locale, which then has its fallbacks.
    """
    slots = tuple(dict.fromkeys(find_slots(path)))
    if any(not format_prompt_value(values.get(slot)) for slot in slots if slot not in locales):
        return
    chosen = [slot for slot in slots if slot in locales]
    chains = (_list_fallbacks(values.get(slot)) for slot in chosen)
    for tags in product(*chains):
        spellings = product(*map(list_tag_spellings, tags))
        filled = (
            fill_slots(path, {**values, **dict(zip(chosen, each, strict=True))})
            for each in spellings
        )
        yield tuple(dict.fromkeys(str(PurePosixPath(each)) for each in filled))


def is_locale_fallback(value: JsonValue, spelled: str) -> bool:
    """Return whether a name in a path spells a locale or one of its fallbacks."""
    return any(spelled in list_tag_spellings(tag) for tag in _list_fallbacks(value))


def _list_fallbacks(value: JsonValue) -> tuple[str, ...]:
    tags = iterate_locale_fallbacks((format_prompt_value(value),))
    return tuple(dict.fromkeys(filter(None, tags)))


def read_first_place(
    files: FolderFiles, places: Collection[tuple[str, ...]], field: str
) -> tuple[str, str] | None:
    """Return path and text of the first place that has a file; None if none has."""
    for path in (spelling for place in places for spelling in place):
        text = files.read_text(path, field)
        if text is not None:
            return path, text
    return None
