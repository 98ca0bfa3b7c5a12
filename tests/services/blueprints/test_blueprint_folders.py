from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from turnlog.events.errors import Refused, TooLarge
from turnlog.projections.blueprint.schema.prompt_overrides import list_prompt_layers
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint
from turnlog.services.blueprints.blueprint_folders import (
    SHIPPED_BLUEPRINTS,
    BlueprintFolders,
    list_read_faults,
)

PARTS = Path(__file__).parents[2] / "support/processes/blueprints"

GUIDE = """\
blueprint: guide
version: 1
attributes:
  task: {type: id}
prompts:
  search: ["tasks/{task}", default]
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
    write_file(guide / "blueprint.yaml", GUIDE)
    write_file(guide / "default/persona.md", "Anyone.\n")
    write_file(guide / "tasks/t1/persona.md", "Someone.\n")
    return guide


def write_file(file: Path, text: str | bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())


def read_prompts(
    folder: Path, provider: str = "openai", **attributes: str
) -> dict[str, tuple[str, str]]:
    library = BlueprintFolders([folder.parent])
    blueprint = library.load_blueprint(folder.name)
    layers = list_prompt_layers(blueprint)
    return library.read_prompt_files(blueprint, layers, provider, attributes)


def expect_refusal(folder: Path, **attributes: str) -> Refused:
    with pytest.raises(Refused) as refusal:
        read_prompts(folder, **attributes)
    return refusal.value


@pytest.mark.parametrize(
    "folder", [*SHIPPED_BLUEPRINTS.iterdir(), *PARTS.iterdir()], ids=lambda f: f.name
)
def test_every_blueprint_of_the_repository_has_no_faults(folder: Path) -> None:
    assert list_read_faults(folder) == ()


def test_assistant_blueprint_is_available_without_configuration() -> None:
    assert "assistant" in BlueprintFolders().list_names()
    assert BlueprintFolders().load_blueprint("assistant").blueprint == "assistant"


def test_first_configured_folder_overrides_later_blueprints_of_the_same_name(
    tmp_path: Path,
) -> None:
    shutil.copytree(SHIPPED_BLUEPRINTS / "assistant", tmp_path / "assistant")
    file = tmp_path / "assistant/blueprint.yaml"
    write_file(file, file.read_text().replace("version: 1", "version: 7"))
    assert BlueprintFolders([tmp_path, SHIPPED_BLUEPRINTS]).load_blueprint("assistant").version == 7
    assert BlueprintFolders([SHIPPED_BLUEPRINTS, tmp_path]).load_blueprint("assistant").version == 1


def test_an_unknown_blueprint_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(Refused) as refusal:
        BlueprintFolders().load_blueprint("asistant")
    assert (refusal.value.code, refusal.value.field) == ("unknown-blueprint", "blueprint")
    assert refusal.value.fix == "write `assistant`"


@pytest.mark.parametrize("name", ["", ".", "..", "../guide", "guide/", "/etc", "a\0b", "x" * 5000])
def test_blueprint_name_that_is_a_path_is_rejected_as_unknown(folder: Path, name: str) -> None:
    with pytest.raises(Refused) as refusal:
        BlueprintFolders([folder.parent]).load_blueprint(name)
    assert refusal.value.code == "unknown-blueprint"


def test_blueprint_is_reloaded_after_an_edit_and_cached_otherwise(folder: Path) -> None:
    library = BlueprintFolders([folder.parent])
    before = library.load_blueprint("guide")
    assert library.load_blueprint("guide") is before
    write_file(folder / "blueprint.yaml", GUIDE.replace("version: 1", "version: 2"))
    assert library.load_blueprint("guide").version == 2


def test_blueprint_is_reloaded_after_a_tool_server_file_is_added(tmp_path: Path) -> None:
    shutil.copytree(SHIPPED_BLUEPRINTS / "uderia", tmp_path / "uderia")
    library = BlueprintFolders([tmp_path])
    before = library.load_blueprint("uderia")
    assert library.load_blueprint("uderia") is before
    write_file(tmp_path / "uderia/mcp/time.yaml", "command: [mcp-server-time]")
    tools = library.load_blueprint("uderia").tools
    assert tools
    assert sorted(tools.servers) == ["harbour", "time"]


def test_faulty_edit_is_rejected_until_it_is_fixed(folder: Path) -> None:
    library = BlueprintFolders([folder.parent])
    library.load_blueprint("guide")
    write_file(folder / "blueprint.yaml", GUIDE.replace("version: 1", "version: one"))
    for _ in range(2):
        with pytest.raises(
            FaultyBlueprint,
            match=r"^faulty-blueprint: guide/blueprint\.yaml:2: version: it must be",
        ):
            library.load_blueprint("guide")
    write_file(folder / "blueprint.yaml", GUIDE)
    assert library.load_blueprint("guide").version == 1


def test_prompt_file_is_read_from_the_first_folder_that_has_it(folder: Path) -> None:
    assert read_prompts(folder, task="t1")["persona"] == ("tasks/t1/persona.md", "Someone.")
    assert read_prompts(folder, task="t2")["persona"] == ("default/persona.md", "Anyone.")
    assert read_prompts(folder)["persona"] == ("default/persona.md", "Anyone.")


def test_a_prompt_file_may_be_named_after_the_provider(folder: Path) -> None:
    write_file(folder / "default/gemini.md", "Be brief.")
    assert read_prompts(folder, "gemini")["provider"] == ("default/gemini.md", "Be brief.")
    assert "provider" not in read_prompts(folder, "openai")


def test_prompt_file_is_read_again_on_each_use(folder: Path) -> None:
    assert read_prompts(folder)["persona"][1] == "Anyone."
    write_file(folder / "default/persona.md", "Nobody.")
    assert read_prompts(folder)["persona"][1] == "Nobody."


def test_only_trailing_newlines_are_stripped_from_a_prompt_file(folder: Path) -> None:
    write_file(folder / "default/persona.md", "\n  One\r\ntwo \r\n\n")
    assert read_prompts(folder)["persona"][1] == "\n  One\r\ntwo "


def test_missing_file_of_required_layer_is_refused_with_a_fix(folder: Path) -> None:
    (folder / "default/persona.md").unlink()
    refusal = expect_refusal(folder, task="t9")
    assert (refusal.code, refusal.field) == ("prompt-missing", "attributes.task")
    assert refusal.detail.endswith("the attribute task is 't9'; there are: t1")
    assert refusal.fix == (
        "give task one of these values, or add tasks/t9/persona.md or default/persona.md to guide"
    )
    (folder / "tasks/t1/persona.md").unlink()
    refusal = expect_refusal(folder, task="t9")
    assert (refusal.code, refusal.field) == ("prompt-missing", "layers.persona.file")
    assert refusal.fix == "add tasks/t9/persona.md or default/persona.md to guide"


@pytest.mark.parametrize("task", ["..", "../..", "a/../../b", "a\\b", "a\0b"])
def test_attribute_value_cannot_escape_the_blueprint_folder(folder: Path, task: str) -> None:
    write_file(folder.parent / "persona.md", "secret")
    assert expect_refusal(folder, task=task).code == "path-outside"


@pytest.mark.parametrize("target", ["../..", "/"])
def test_symlink_out_of_the_blueprint_folder_is_refused(folder: Path, target: str) -> None:
    write_file(folder.parent / "persona.md", "secret")
    write_file(folder.parent.parent / "persona.md", "secret")
    (folder / "tasks/out").symlink_to(target)
    link = folder / "tasks/sly/persona.md"
    link.parent.mkdir()
    link.symlink_to(folder.parent / "persona.md")
    assert expect_refusal(folder, task="sly").code == "path-outside"


def test_symlink_within_the_blueprint_folder_is_followed(folder: Path) -> None:
    (folder / "tasks/t2").symlink_to("t1")
    assert read_prompts(folder, task="t2")["persona"] == ("tasks/t2/persona.md", "Someone.")


def test_symlink_loops_and_overlong_names_count_as_missing_files(folder: Path) -> None:
    (folder / "tasks/t3").symlink_to("t3")
    assert read_prompts(folder, task="t3")["persona"][1] == "Anyone."
    assert read_prompts(folder, task="x" * 5000)["persona"][1] == "Anyone."


def test_folder_or_pipe_in_place_of_a_prompt_file_counts_as_missing(folder: Path) -> None:
    (folder / "tasks/t4/persona.md").mkdir(parents=True)
    (folder / "tasks/t5").mkdir()
    os.mkfifo(folder / "tasks/t5/persona.md")
    assert read_prompts(folder, task="t4")["persona"][1] == "Anyone."
    assert read_prompts(folder, task="t5")["persona"][1] == "Anyone."


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (b"caf\xe9", "tasks/t6/persona.md: byte 3 is not UTF-8"),
        (b"a\0b", "tasks/t6/persona.md: it holds a NUL"),
    ],
)
def test_prompt_file_that_cannot_be_stored_is_refused_by_path(
    folder: Path, data: bytes, detail: str
) -> None:
    write_file(folder / "tasks/t6/persona.md", data)
    refusal = expect_refusal(folder, task="t6")
    assert (refusal.code, refusal.detail) == ("bad-prompt-file", detail)
    assert refusal.field == "tasks/t6/persona.md"


def test_oversized_prompt_file_is_refused_as_too_large(folder: Path) -> None:
    write_file(folder / "tasks/t7/persona.md", b"x" * 500_001)
    assert isinstance(expect_refusal(folder, task="t7"), TooLarge)


def test_check_reports_each_fault_with_its_line(folder: Path) -> None:
    write_file(
        folder / "blueprint.yaml", GUIDE.replace("[persona, ", "[persna, ").replace("keep", "kep")
    )
    assert [str(fault) for fault in list_read_faults(folder)] == [
        "guide/blueprint.yaml:8: layers.persona.kep: `kep` means nothing here; write `keep`",
    ]
    write_file(folder / "blueprint.yaml", GUIDE.replace("[persona, ", "[persna, "))
    (fault,) = list_read_faults(folder)
    assert str(fault) == (
        "guide/blueprint.yaml:11: calls.reply.messages.0.system.0: there is no layer `persna`; "
        "write `persona`"
    )


def test_check_reports_required_prompt_file_that_no_session_can_find(folder: Path) -> None:
    write_file(folder / "blueprint.yaml", GUIDE.replace('["tasks/{task}", default]', "[default]"))
    (folder / "default/persona.md").rename(folder / "default/person.md")
    (fault,) = list_read_faults(folder)
    assert str(fault) == (
        "guide/blueprint.yaml:8: layers.persona.file: layer persona is required "
        "(`keep: always`), and its file was not found; add default/persona.md to guide"
    )


def test_folder_name_that_differs_from_its_blueprint_is_a_fault(folder: Path) -> None:
    folder.rename(folder.parent / "tour")
    (fault,) = list_read_faults(folder.parent / "tour")
    assert str(fault) == (
        "tour/blueprint.yaml:1: blueprint: the folder is called `tour`; give both the same name"
    )


def test_a_folder_without_a_blueprint_is_a_fault(tmp_path: Path) -> None:
    (fault,) = list_read_faults(tmp_path)
    assert (fault.what, fault.fix) == ("No such file or directory", "put a blueprint.yaml there")


def test_a_blueprint_that_is_not_utf8_is_a_fault(folder: Path) -> None:
    write_file(folder / "blueprint.yaml", b"blueprint: caf\xe9")
    (fault,) = list_read_faults(folder)
    assert fault.what == "byte 14 is not UTF-8"
