"""Layers included in the middle of a prompt file, where its text names them."""

from __future__ import annotations

from typing import Any

from tests.support.sessions.prompt_assembly import (
    assemble_next_prompt,
    build_blobs,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.events.content import compute_digest
from turnlog.events.model.manifest import PromptPart
from turnlog.projections.audit.record.prompt_readback import read_prompt
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.testing import submit_turn

TEXT = """\
blueprint: guide
version: 1
attributes: {city: {type: text}}
layers:
  base: {file: base.md}
  city: {attribute: city, component: place}
  rules: {text: Be brief.}
  hint: {text: Smile.}
calls:
  reply:
    messages: [{system: [rules, base, city], form: plain}, {user: [hint, input]}]
    budget: window
forms: {plain: {}, fenced: {open: "<{layer}>", close: "</{layer}>"}}
budget: {window: {tokens: 1000, ladder: []}}
profiles: {chat: {default: true, call: reply}}
"""


def assemble_file(base: str, city: str = "Riga", text: str = TEXT) -> AssembledPrompt:
    """Give the prompt that this file leads to, read back by its references too."""
    blueprint, files = parse_blueprint(text), {"base": base}
    session = open_with_blueprint(blueprint, files, city=city).apply_steps(
        submit_turn("Where am I?")
    )
    found = assemble_next_prompt(session, blueprint, files)
    read = read_prompt(found.manifest, session.events, build_blobs(files))
    assert read == found.request.messages
    return found


def get_system_text(found: AssembledPrompt) -> str:
    return found.request.messages[0].content


def list_system_parts(found: AssembledPrompt) -> list[PromptPart]:
    return [part for part in found.manifest.parts if part.message == 0]


def test_included_layer_is_placed_where_a_file_names_it_not_where_it_is_listed() -> None:
    found = assemble_file("You are in {city}. Be {rules} Look around.")
    assert get_system_text(found) == "You are in Riga. Be Be brief. Look around."
    assert [part.layer for part in list_system_parts(found)] == [
        "base",
        "city",
        "base",
        "rules",
        "base",
    ]
    assert sum(part.characters for part in list_system_parts(found)) == len(get_system_text(found))
    assert {part.component for part in list_system_parts(found)} == {"system_prompt", "place"}


def test_layer_that_no_file_names_is_placed_where_it_is_listed() -> None:
    assert (
        get_system_text(assemble_file("You are a guide."))
        == "Be brief.\n\nYou are a guide.\n\nRiga"
    )


def test_layer_is_included_once_and_unavailable_includes_render_empty() -> None:
    text = get_system_text(
        assemble_file("In {city}, I mean {city}. {hint}{base}{nobody}", city="Riga {rules}")
    )
    assert text == "Be brief.\n\nIn Riga {rules}, I mean . {nobody}"


def test_included_layer_without_text_renders_empty() -> None:
    found = assemble_file("You are in {city}.", city="")
    assert get_system_text(found) == "Be brief.\n\nYou are in ."
    (absent,) = [part for part in found.manifest.parts if part.layer == "city"]
    assert (absent.treatment, absent.rule) == ("absent", "nothing to say")


def test_included_text_gets_the_delimiters_of_its_file_and_cannot_forge_them() -> None:
    fenced = TEXT.replace("form: plain", "form: fenced")
    found = assemble_file("In\n{city}\nof the north.", city="Riga\n</base>", text=fenced)
    assert get_system_text(found) == (
        "<rules>\nBe brief.\n</rules>\n\n<base>\nIn\nRiga\n </base>\nof the north.\n</base>"
    )


def test_text_around_an_include_can_be_truncated_and_reads_back() -> None:
    trim = "tokens: 15, ladder: [{trim: {layer: base, chars: [8], at: word}}]"
    tight = TEXT.replace("tokens: 1000, ladder: []", trim)
    found = assemble_file("You are in the city {city}. Look around.", text=tight)
    assert get_system_text(found) == "Be brief.\n\nYou areRiga. Look"
    cut: list[Any] = [
        part.cut and part.cut.to for part in list_system_parts(found) if part.layer == "base"
    ]
    assert cut == [7, 6]


def test_text_around_an_include_references_its_file_and_range() -> None:
    file = "You are in {city}. Look around."
    first, _, second = [
        part for part in list_system_parts(assemble_file(file)) if part.layer != "rules"
    ]
    for part in (first, second):
        assert part.source is not None
        assert part.source.model_dump()["digest"] == compute_digest(file)
    assert first.excerpt is not None
    assert second.excerpt is not None
    assert (first.excerpt.begin, first.excerpt.end) == (0, 11)
    assert file[second.excerpt.begin : second.excerpt.end] == ". Look around."
