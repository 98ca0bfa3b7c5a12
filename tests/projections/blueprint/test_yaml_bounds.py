"""A YAML document that is too deep or too long is refused before it costs anything."""

from __future__ import annotations

import pytest

from turnlog.projections.blueprint.loading import yaml_document
from turnlog.projections.blueprint.loading.yaml_document import (
    MAX_YAML_DEPTH,
    YamlLimits,
    load_yaml,
)
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint

DEEP_DOCUMENTS = {
    "brackets": "[" * 3_000,
    "braces": "{" * 3_000,
    "keys in braces": "{a: " * 3_000,
    "dashes": "- " * 3_000,
    "question marks": "? " * 3_000,
    "indents": "".join(f"{' ' * depth}a:\n" for depth in range(300)),
}


@pytest.mark.promise("P21")
@pytest.mark.parametrize("name", DEEP_DOCUMENTS)
def test_document_that_is_too_deep_is_refused_at_its_first_level_too_many(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned: list[int] = []

    class CountingScanner(yaml_document.BoundedScanner):
        def fetch_more_tokens(self) -> object:
            scanned.append(self.token_count)
            return super().fetch_more_tokens()

    monkeypatch.setattr(yaml_document, "BoundedScanner", CountingScanner)
    with pytest.raises(FaultyBlueprint, match="nested more than 32 deep"):
        load_yaml(DEEP_DOCUMENTS[name], "f.yaml")
    assert len(scanned) < 5 * MAX_YAML_DEPTH


def test_document_of_maximum_depth_is_read() -> None:
    text = "[" * MAX_YAML_DEPTH + "]" * MAX_YAML_DEPTH
    assert load_yaml(text, "f.yaml").faults == ()


def test_document_of_too_many_values_is_refused_while_it_is_read() -> None:
    limits = YamlLimits(max_values=100)
    assert load_yaml("- a\n" * 99, "f.yaml", limits).faults == ()
    with pytest.raises(FaultyBlueprint, match="too many values"):
        load_yaml("- [[], {}]\n" * 99, "f.yaml", limits)
