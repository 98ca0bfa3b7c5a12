"""Which attribute of a session names a file that does not exist, and the values that name one.

The path of a cartridge or a prompt file may contain attributes: `tasks/{task}/cartridge.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from pydantic import JsonValue

from turnlog.projections.blueprint.sent_names import quote_sent_name
from turnlog.projections.blueprint.template_slots import (
    fill_slots,
    find_slots,
    format_prompt_value,
)
from turnlog.projections.blueprint.validation.blueprint_faults import find_near_word, format_words
from turnlog.projections.blueprint.validation.layer_checks import PROVIDER_SLOT
from turnlog.services.blueprints.folder_files import FolderFiles
from turnlog.services.blueprints.path_places import is_locale_fallback

_OTHER_SLOT: Final = re.compile(r"\{[^}]*\.name\}|\{" + PROVIDER_SLOT + r"\}")
"""A slot that is not the plain value of an attribute."""


@dataclass(frozen=True, slots=True)
class WrongChoice:
    """An attribute whose value names no file."""

    attribute: str
    value: str
    known: tuple[str, ...]
    """The values that name a file, under the attributes before it in the path."""

    def __str__(self) -> str:
        value = quote_sent_name(self.value) if self.value else "not given"
        known = f"there are: {format_words(self.known)}" if self.known else "no value names a file"
        return f"the attribute {self.attribute} is {value}; {known}"

    @property
    def fix(self) -> str:
        """The nearest value that names a file, or a hint to give any of them."""
        if not self.known:
            return f"add a file for {self.attribute}"
        near = find_near_word(self.value, self.known)
        return f"write `{near}`" if near else f"give {self.attribute} one of these values"


def find_wrong_choice(
    files: FolderFiles, path: str, values: Mapping[str, JsonValue], locales: Collection[str]
) -> WrongChoice | None:
    """Return the first attribute in a path whose value names none of the files that exist.

    Returns None for a path without attributes. Each of `locales` names those of its fallbacks too.
    """
    path = _OTHER_SLOT.sub(lambda slot: fill_slots(slot[0], values), str(PurePosixPath(path)))
    attributes = tuple(dict.fromkeys(find_slots(path)))
    choices = tuple(_iterate_choices(files, path, attributes))
    for attribute in attributes:
        value = format_prompt_value(values.get(attribute))
        known = {choice[attribute] for choice in choices}
        chosen = {value} & known
        if attribute in locales:
            chosen = {each for each in known if is_locale_fallback(value, each)}
        if not chosen:
            return WrongChoice(attribute, value, tuple(sorted(known)))
        choices = tuple(choice for choice in choices if choice[attribute] in chosen)
    return None


def _iterate_choices(
    files: FolderFiles, path: str, attributes: tuple[str, ...]
) -> Iterator[dict[str, str]]:
    """Yield the values of the attributes in the path of every file of this form."""
    pattern = _compile_path_pattern(path, attributes)
    for place in files.list_files_under(path.partition("{")[0].rpartition("/")[0]):
        if match := pattern.fullmatch(place):
            yield dict(zip(attributes, match.groups(), strict=True))


def _compile_path_pattern(path: str, attributes: tuple[str, ...]) -> re.Pattern[str]:
    """Compile a pattern with a group for each attribute; one that comes again is the same."""
    written = re.escape(path)
    for number, attribute in enumerate(attributes, start=1):
        slot = re.escape(f"{{{attribute}}}")
        written = written.replace(slot, "([^/]+)", 1).replace(slot, rf"\{number}")
    return re.compile(written)
