"""Files of knowledge: what becomes of them, and faults by file and line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from turnlog.events.errors import Refused
from turnlog.services.cli.knowledge.knowledge_actions import BATCH_ENTRIES, split_batches
from turnlog.services.cli.knowledge.knowledge_files import (
    FileEntry,
    ParsedKnowledge,
    read_knowledge_files,
)
from turnlog.services.cli.knowledge.markdown_chunks import CHUNK_CHARACTERS, split_markdown


def read_files(folder: Path, **files: str) -> ParsedKnowledge:
    for name, content in files.items():
        stem, _, suffix = name.rpartition("_")
        (folder / f"{stem}.{suffix}").write_text(content)
    return read_knowledge_files([folder], "document")


def list_entries(found: ParsedKnowledge) -> list[FileEntry]:
    assert found.faults == []
    return [entry for entries in found.files for entry in entries]


def test_markdown_is_split_at_headings_without_losing_text() -> None:
    long_paragraph = "word " * CHUNK_CHARACTERS
    text = "Before.\n# One\nFirst.\n\nSecond.\n## Two\n```\n# no heading\n```\n# Three\n"
    chunks = list(split_markdown(text + long_paragraph))
    assert [(each.line, each.title) for each in chunks[:3]] == [
        (1, ""),
        (3, "One"),
        (7, "One > Two"),
    ]
    assert chunks[2].text == "```\n# no heading\n```"
    assert {each.title for each in chunks[3:]} == {"Three"}
    assert max(len(each.text) for each in chunks) <= CHUNK_CHARACTERS
    assert "".join(each.text for each in chunks[3:]).count("word") == CHUNK_CHARACTERS


def test_all_formats_of_a_folder_are_read_with_stable_ids(tmp_path: Path) -> None:
    files = {
        "guide_md": "# Guide\nText one.\n\n# More\nText two.\n",
        "cases_json": '[{"id": "a", "text": "A.", "efficiency": null},\n {"text": "B."}]',
        "rows_csv": 'text,title,tags,attributes,efficiency,kind\n"C,\nd",T,x;y,by=ann,0.5,case\n',
    }
    found = list_entries(read_files(tmp_path, **files))
    assert found == list_entries(read_files(tmp_path, **files))
    by_source = {(each.entry.source, each.line): each.entry for each in found}
    assert set(by_source) == {
        ("guide.md", 2),
        ("guide.md", 5),
        ("cases.json", 1),
        ("cases.json", 2),
        ("rows.csv", 2),
    }
    assert by_source["cases.json", 1].id == "a"
    assert by_source["guide.md", 5].id.endswith(":2")
    row = by_source["rows.csv", 2]
    assert (row.text, row.tags, row.attributes, row.efficiency) == (
        "C,\nd",
        ("x", "y"),
        {"by": "ann"},
        0.5,
    )
    assert len({each.entry.id for each in found}) == 5


@pytest.mark.parametrize(
    ("name", "content", "line", "what"),
    [
        ("a_json", '{"text": "x"}', 1, "no list"),
        ("a_json", '[{"text": "x"},\n{"text": }]', 2, "Expecting value"),
        ("a_json", '[{"text": "x"}\n{"text": "y"}]', 1, "comma"),
        ("a_json", '[{"text": "x"}]\nmore', 1, "follows the list"),
        ("a_json", '[\n{"text": "x", "titel": "y"}]', 2, "no field 'titel'"),
        ("a_json", '[\n\n{"text": 7}]', 3, "not a text"),
        ("a_json", '[{"text": "x", "kind": "case", "efficiency": 3}]', 1, "no efficiency"),
        ("a_json", "[" * 100_000, 1, "nested"),
        ("a_json", '[\n{"text": "x", "efficiency": ' + "9" * 5_000 + "}]", 2, "number"),
        ("a_csv", "title\nx\n", 1, "no column `text`"),
        ("a_csv", "text,title\nx,y\nz\n", 3, "1 values for 2 columns"),
        ("a_csv", 'text\n"never closed\n', 2, "unexpected end"),
        ("a_csv", "text,efficiency,kind\nx,much,case\n", 2, "not a number"),
        ("a_md", "# only a heading\n", 1, "empty"),
    ],
)
def test_knowledge_file_fault_is_reported_with_file_line_and_fix(
    tmp_path: Path, name: str, content: str, line: int, what: str
) -> None:
    found = read_files(tmp_path, **{name: content, "good_md": "# Good\nText.\n"})
    (fault,) = found.faults
    assert Path(fault.file).name == name.replace("_", ".")
    assert (fault.line, fault.what) == (line, fault.what)
    assert what in fault.what
    assert fault.fix


def test_invalid_utf8_and_duplicate_ids_are_faults(tmp_path: Path) -> None:
    (tmp_path / "bad.md").write_bytes(b"one\ntwo \xff\n")
    (tmp_path / "twice.json").write_text('[{"id": "a", "text": "x"}, {"id": "a", "text": "y"}]')
    faults = read_knowledge_files([tmp_path], "document").faults
    assert [(Path(each.file).name, each.line, each.path) for each in faults] == [
        ("bad.md", 2, ""),
        ("twice.json", 1, "id"),
    ]
    with pytest.raises(Refused, match="not a known format"):
        read_knowledge_files([tmp_path / "x.pdf"], "document")


def test_import_batches_do_not_split_files(tmp_path: Path) -> None:
    (entry,) = list_entries(read_files(tmp_path, a_md="Text."))
    files = [[replace(entry)] * count for count in (300, 300, 100, 900, 1)]
    sizes = [len(batch) for batch in split_batches(files)]
    assert sizes == [300, 400, 900, 1]
    assert sizes[1] <= BATCH_ENTRIES


def test_links_out_of_an_imported_folder_are_refused_by_name(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    (outside / "more").mkdir(parents=True)
    folder.mkdir()
    (outside / "secret.md").write_text("A secret.")
    (folder / "kept.md").write_text("Text.")
    (folder / "same.md").symlink_to(folder / "kept.md")
    (folder / "out.md").symlink_to(outside / "secret.md")
    (folder / "folder-out").symlink_to(outside / "more")
    found = read_knowledge_files([folder], "document")
    assert [(Path(each.file).name, each.what) for each in found.faults] == [
        ("folder-out", "it is a link that leads outside the folder"),
        ("out.md", "it is a link that leads outside the folder"),
    ]
    sources = [entry.entry.source for entries in found.files for entry in entries]
    assert sources == ["kept.md", "same.md"]
