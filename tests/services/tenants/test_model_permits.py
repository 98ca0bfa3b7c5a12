"""Which models a tenant may use, and which a session would come to call."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnlog.events.errors import Refused
from turnlog.projections.access.tenant_settings import TenantSettings
from turnlog.services.blueprints.blueprint_folders import read_folder
from turnlog.services.tenants.model_permits import require_profile_models

TEAM = Path(__file__).parents[2] / "support/processes/blueprints/team"


@pytest.mark.parametrize(
    ("patterns", "model", "is_allowed"),
    [
        (None, "openai/gpt-4o", True),
        ((), "openai/gpt-4o", False),
        (("openai/gpt-4o",), "openai/gpt-4o", True),
        (("openai/gpt-4o",), "openai/gpt-4o-mini", False),
        (("openai/gpt-4o*",), "openai/gpt-4o-mini", True),
        (("openai/*",), "openai/", True),
        (("openai/*",), "OpenAI/gpt-4o", False),
        (("openai/*",), "azure/openai/gpt-4o", False),
        (("openai/*",), " openai/gpt-4o", False),
        (("*",), "whatever", True),
    ],
)
def test_patterns_are_whole_names_or_beginnings(
    *, patterns: tuple[str, ...] | None, model: str, is_allowed: bool
) -> None:
    settings = TenantSettings(tenant="travel", models=patterns)
    assert settings.allows_model(model) is is_allowed


def test_children_and_phases_of_a_profile_count_as_it_does(tmp_path: Path) -> None:
    written = (TEAM / "blueprint.yaml").read_text()
    folder = tmp_path / "team"
    folder.mkdir()
    for each in TEAM.iterdir():
        (folder / each.name).write_bytes(each.read_bytes())
    before = "thinker: {"
    assert before in written
    (folder / "blueprint.yaml").write_text(
        written.replace(before, "thinker: {model: openai/dear, ")
    )
    blueprint = read_folder(folder)
    cheap = TenantSettings(tenant="travel", models=("openai/cheap",))
    with pytest.raises(Refused) as refused:
        require_profile_models(cheap, blueprint, "head", "openai/cheap")
    assert refused.value.field == "profiles.thinker.model"
    require_profile_models(cheap, blueprint, "seeker", "openai/cheap")
    require_profile_models(cheap, blueprint, "seeker", "off")
