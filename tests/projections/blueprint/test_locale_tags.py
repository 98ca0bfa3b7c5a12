"""The fallback rule of locales, which prompt files, replacements and segments share."""

from __future__ import annotations

import pytest

from turnlog.projections.blueprint.locale_tags import iterate_locale_fallbacks, list_tag_spellings
from turnlog.projections.blueprint.schema.policy_specs import Policies


@pytest.mark.parametrize(
    ("locales", "tags"),
    [
        (["de-AT"], ["de-at", "de", "en", ""]),
        (["zh_Hant_TW", "ja"], ["zh-hant-tw", "zh-hant", "zh", "ja", "en", ""]),
        ([], ["en", ""]),
        ([""], ["en", ""]),
    ],
)
def test_a_locale_falls_back_to_its_shorter_tags_and_the_default(
    locales: list[str], tags: list[str]
) -> None:
    assert list(iterate_locale_fallbacks(locales)) == tags


def test_a_tag_is_spelled_as_usual_first() -> None:
    assert list_tag_spellings("pt-br") == ("pt-BR", "pt-br", "PT-BR", "pt_BR", "pt_br", "PT_BR")
    assert list_tag_spellings("zh-hant-tw")[0] == "zh-Hant-TW"
    assert list_tag_spellings("lt") == ("lt", "LT")


@pytest.mark.parametrize(
    ("locale", "text"), [("de-AT", "Weg."), ("de", "Weg."), ("fr", "Gone."), (None, "Gone.")]
)
def test_a_replacement_follows_the_fallback_rule(locale: str | None, text: str) -> None:
    policies = Policies(replacement={"en": "Gone.", "de": "Weg."})
    assert policies.get_replacement(locale) == text
