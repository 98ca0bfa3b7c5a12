"""Files that are chosen by a locale, and files that are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.schema.prompt_overrides import list_prompt_layers
from turnlog.services.blueprints.blueprint_check import check_blueprint_folder
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders

GUIDE = """\
blueprint: guide
version: 1
attributes:
  locale: {type: locale, required: true}
  city: {type: id, default: vilnius}
cartridge: {file: "tasks/{locale}.yaml"}
prompts:
  search: ["{city}/{locale}", "{locale}", "{city}"]
layers:
  persona: {file: persona.md, keep: always}
  provider: {file: "{provider}.md"}
calls:
  reply: {messages: [{system: [persona, provider]}, {user: [input]}]}
profiles:
  chat: {default: true, call: reply}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    guide = tmp_path / "guide"
    write_file(guide, "blueprint.yaml", GUIDE)
    write_file(guide, "tasks/en.yaml", "name: tour")
    return guide


def write_file(folder: Path, path: str, text: str = "") -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text or path)


def edit_persona(folder: Path, settings: str) -> None:
    written = GUIDE.replace("{file: persona.md, keep: always}", f"{{file: persona.md{settings}}}")
    write_file(folder, "blueprint.yaml", written)


def read_prompts(folder: Path, provider: str = "openai", **attributes: str) -> dict[str, str]:
    library = BlueprintFolders([folder.parent])
    blueprint = library.load_blueprint(folder.name)
    values = {"city": "vilnius"} | attributes
    found = library.read_prompt_files(blueprint, list_prompt_layers(blueprint), provider, values)
    return {name: path for name, (path, _) in found.items()}


def check_opening(folder: Path, locale: str, provider: str | None = "openai") -> tuple[str, ...]:
    library = BlueprintFolders([folder.parent])
    blueprint = library.load_blueprint(folder.name)
    values = {"city": "vilnius", "locale": locale}
    return library.open_files("guide").check_chosen_files(blueprint, values, provider)


def test_a_prompt_file_falls_back_as_segments_and_replacements_do(folder: Path) -> None:
    for path in ("de/persona.md", "de-AT/persona.md", "en/persona.md", "vilnius/lt/persona.md"):
        write_file(folder, path)
    chosen = {
        locale: read_prompts(folder, locale=locale)["persona"]
        for locale in ("de-AT", "de-CH", "de", "fr", "lt-LT")
    }
    assert chosen == {
        "de-AT": "de-AT/persona.md",
        "de-CH": "de/persona.md",
        "de": "de/persona.md",
        "fr": "en/persona.md",
        "lt-LT": "vilnius/lt/persona.md",
    }


def test_a_file_without_a_locale_is_in_a_later_folder(folder: Path) -> None:
    write_file(folder, "vilnius/persona.md")
    assert read_prompts(folder, locale="fr")["persona"] == "vilnius/persona.md"
    write_file(folder, "fr/persona.md")
    assert read_prompts(folder, locale="fr-CA")["persona"] == "fr/persona.md"


@pytest.mark.parametrize("spelled", ["pt-BR", "pt_BR", "pt-br", "PT_BR"])
def test_a_folder_may_spell_its_locale_as_sessions_may(folder: Path, spelled: str) -> None:
    write_file(folder, f"{spelled}/persona.md")
    for locale in ("pt-BR", "pt_br"):
        assert read_prompts(folder, locale=locale)["persona"] == f"{spelled}/persona.md"


def test_a_cartridge_falls_back_too(folder: Path) -> None:
    library = BlueprintFolders([folder.parent])
    blueprint = library.load_blueprint("guide")
    assert library.read_cartridge(blueprint, {"locale": "de-AT"}) == {"name": "tour"}
    write_file(folder, "tasks/de.yaml", "name: Rundgang")
    assert library.read_cartridge(blueprint, {"locale": "de-AT"}) == {"name": "Rundgang"}
    (folder / "tasks/en.yaml").unlink()
    with pytest.raises(Refused, match="the attribute locale is 'fr'; there are: de"):
        library.read_cartridge(blueprint, {"locale": "fr"})


def test_providers_with_files_of_their_own_are_found_in_the_fallbacks(folder: Path) -> None:
    write_file(folder, "de/persona.md")
    write_file(folder, "de/gemini.md")
    library = BlueprintFolders([folder.parent])
    blueprint = library.load_blueprint("guide")
    values = {"city": "vilnius", "locale": "de-AT"}
    found = library.open_files("guide").list_providers(
        blueprint, list_prompt_layers(blueprint), values
    )
    assert "gemini" in found
    assert read_prompts(folder, "gemini", locale="de-AT")["provider"] == "de/gemini.md"


def test_a_required_file_without_any_fallback_is_refused_with_the_places(folder: Path) -> None:
    write_file(folder, "lt/persona.md")
    with pytest.raises(Refused) as refusal:
        check_opening(folder, "de-AT")
    assert (refusal.value.code, refusal.value.field) == ("prompt-missing", "attributes.locale")
    assert refusal.value.detail.endswith("the attribute locale is 'de-AT'; there are: lt")
    assert "de-AT/persona.md or de/persona.md or en/persona.md or vilnius/persona.md" in (
        refusal.value.fix or ""
    )


def test_a_required_file_may_be_trimmed_and_is_refused_at_opening(folder: Path) -> None:
    edit_persona(folder, ", required: true")
    with pytest.raises(Refused, match=r"persona is required \(`required: true`\)"):
        check_opening(folder, "de")
    write_file(folder, "en/persona.md")
    assert check_opening(folder, "de") == ()


def test_a_missing_file_is_a_warning_unless_it_is_optional(folder: Path) -> None:
    edit_persona(folder, "")
    assert check_opening(folder, "de") == ("layer persona is left out: persona.md was not found",)
    edit_persona(folder, ", required: false")
    assert check_opening(folder, "de") == ()
    edit_persona(folder, ", keep: always, required: false")
    assert check_opening(folder, "de") == ()
    assert read_prompts(folder, locale="de") == {}


def test_a_required_file_of_the_provider_is_refused_at_opening(folder: Path) -> None:
    written = GUIDE.replace('"{provider}.md"}', '"{provider}.md", required: true}')
    write_file(folder, "blueprint.yaml", written)
    write_file(folder, "en/persona.md")
    write_file(folder, "en/openai.md")
    assert check_opening(folder, "de", "openai") == ()
    assert check_opening(folder, "de", None) == ()
    with pytest.raises(Refused, match="layer provider is required"):
        check_opening(folder, "de", "anthropic")


def test_check_warns_of_no_listed_locale_that_has_a_fallback(folder: Path) -> None:
    written = GUIDE.replace("{type: locale, required: true}", "{type: locale, enum: [de, fr-CA]}")
    write_file(folder, "blueprint.yaml", written)
    write_file(folder, "fr/persona.md")
    assert [each.path for each in check_blueprint_folder(folder)] == ["attributes.locale.enum"]
    write_file(folder, "en/persona.md")
    assert check_blueprint_folder(folder) == ()
