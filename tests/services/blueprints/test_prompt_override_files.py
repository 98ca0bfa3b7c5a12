"""Override files: files that no session would read are faults of the blueprint."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.schema.prompt_overrides import list_prompt_layers
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders, list_read_faults

TEXT = """\
blueprint: agent
version: 1
layers:
  base: {override: {category: master_system, by: provider}}
  manner: {override: {category: conversation_execution}}
calls: {reply: {messages: [{system: [base, manner]}, {user: [input]}]}}
profiles:
  talk: {default: true, call: reply}
"""

FILES = {
    "master_system.md": "You are an agent.",
    "anthropic/master_system.md": "You are Claude.",
    "conversation_execution.md": "Talk.",
    "overrides/talk/master_system.md": "You talk.",
    "overrides/talk/openai/master_system.md": "You chat.",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path / "agent", {"blueprint.yaml": TEXT, **FILES})
    return tmp_path / "agent"


def write_files(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def read_prompts(folder: Path, provider: str) -> dict[str, str]:
    library = BlueprintFolders([folder.parent])
    blueprint = library.load_blueprint("agent")
    texts = library.read_prompt_files(blueprint, list_prompt_layers(blueprint), provider, {})
    return {name: text for name, (_, text) in texts.items()}


def test_prompt_files_can_differ_by_provider_and_profile(folder: Path) -> None:
    prompts = read_prompts(folder, "anthropic")
    assert prompts == {
        "base": "You are Claude.",
        "base@talk": "You talk.",
        "manner": "Talk.",
    }
    assert read_prompts(folder, "openai") == prompts | {
        "base": "You are an agent.",
        "base@talk": "You chat.",
    }


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("overrides/tlak/master_system.md", "is of no profile; write `talk`"),
        ("overrides/talk/mastr_system.md", "no layer is overridden by `overrides/talk/mastr_sys"),
        ("overrides/talk/openai/conversation_execution.md", "no layer is overridden by"),
        ("overrides/talk/master_system.txt", "write `overrides/talk/master_system.md`"),
        ("overrides/notes.md", "`overrides/notes.md` is of no profile"),
    ],
)
def test_override_file_that_no_session_reads_is_a_fault(
    folder: Path, place: str, fault: str
) -> None:
    write_files(folder, {place: "?"})
    (found,) = list_read_faults(folder)
    assert fault in str(found)


def test_override_category_without_a_default_text_is_a_fault(folder: Path) -> None:
    (folder / "master_system.md").unlink()
    (fault,) = list_read_faults(folder)
    assert "layers.base.override: `master_system.md` is in none of its folders" in str(fault)
    with pytest.raises(Refused):
        BlueprintFolders([folder.parent]).load_blueprint("agent")
