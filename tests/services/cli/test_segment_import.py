"""Segment files in YAML, CSV and SQL dumps; faults name the file and the line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from turnlog.events.errors import Refused
from turnlog.projections.library.segment_inputs import SegmentInput
from turnlog.services.cli.segments.segment_actions import read_segment_files

CORE = SegmentInput(scope="core", content="Be brief; it's\nthe rule.", id=1)

CUE = SegmentInput(
    scope="npc",
    content="He nods.",
    ref="npc.a",
    locale="lt",
    tier=2,
    type="npc_cue",
    priority="high",
    active=False,
    id=7,
    version=3,
)

YAML = """\
segments:
- id: 1
  scope: core
  content: |-
    Be brief; it's
    the rule.
- id: 7
  scope: npc
  ref: npc.a
  content: He nods.
  locale: lt
  metadata: {tier: 2, type: npc_cue, priority: high}
  active: false
  version: 3
"""

CSV = """\
id,scope,ref_id,content,tier,type,priority,active,locale,version
1,core,,"Be brief; it's
the rule.",,,,,,
7,npc,npc.a,He nods.,2,npc_cue,high,f,lt,3
"""

SQL = """\
-- A dump, as pg_dump --column-inserts makes one
SET client_encoding = 'UTF8';
SELECT pg_catalog.set_config('search_path', '', false);
CREATE TABLE public.prompt_segments (
    id bigint NOT NULL, scope text, ref_id text, content text, metadata jsonb DEFAULT '{}'::jsonb,
    active boolean DEFAULT true, created_at timestamptz DEFAULT now(), locale text,
    version integer
);
CREATE FUNCTION public.touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO audit VALUES (1); RETURN NEW; END; $$;
INSERT INTO public.users (id, name) VALUES (1, 'DROP TABLE x;');
INSERT INTO public.prompt_segments
  (id, scope, ref_id, content, metadata, active, created_at, locale, version)
VALUES
  (1, 'core', NULL, 'Be brief; it''s
the rule.', '{}', true, now(), NULL, NULL);
INSERT INTO prompt_segments VALUES (7, 'npc', 'npc.a', 'He nods.',
  CAST('{"tier": 2, "type": "npc_cue", "priority": "high"}' AS jsonb),
  FALSE, '2026-01-01', 'lt', 3);
DROP TABLE public.prompt_segments;
"""

MYSQL = """\
INSERT INTO `prompt_segments` (`id`, `scope`, `content`)
VALUES (1,'core','Be brief; it\\'s\\nthe rule.');
"""


def write_file(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, newline="")
    return file


def read_segments(file: Path) -> list[SegmentInput]:
    found = read_segment_files([file])
    assert found.faults == []
    return [authored for _, authored in found.segments]


@pytest.mark.parametrize(("name", "text"), [("s.yaml", YAML), ("s.CSV", CSV), ("s.sql", SQL)])
def test_every_file_format_gives_the_same_segments(tmp_path: Path, name: str, text: str) -> None:
    assert read_segments(write_file(tmp_path, name, text)) == [CORE, CUE]


def test_a_dump_is_refused_with_the_extra_to_install_where_sqlglot_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As Python has it where sqlglot is not installed
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    monkeypatch.delitem(sys.modules, "turnlog.services.cli.segments.sql_dumps", raising=False)
    with pytest.raises(Refused, match="sqlglot") as refused:
        read_segments(write_file(tmp_path, "s.sql", SQL))
    assert (refused.value.code, refused.value.field) == ("not-installed", "FILE")
    assert refused.value.fix == "pip install 'turnlog-services[sql]'"
    assert read_segments(write_file(tmp_path, "s.csv", CSV)) == [CORE, CUE]


def test_mysql_dump_is_read_with_mysql_escapes(tmp_path: Path) -> None:
    assert read_segments(write_file(tmp_path, "s.sql", MYSQL)) == [CORE]


def test_backticks_in_a_text_do_not_make_a_dump_a_mysql_dump(tmp_path: Path) -> None:
    text = r"INSERT INTO s (scope, content) VALUES ('core', 'Say `hi\'), ('core', 'or $$no$$');"
    contents = [each.content for each in read_segments(write_file(tmp_path, "s.sql", text))]
    assert contents == ["Say `hi\\", "or $$no$$"]


def test_file_with_byte_order_mark_and_carriage_returns_is_read(tmp_path: Path) -> None:
    text = "\ufeffscope,content\r\ncore,Be kind.\r\n\r\n"
    assert read_segments(write_file(tmp_path, "s.csv", text)) == [
        SegmentInput(scope="core", content="Be kind.")
    ]


@pytest.mark.parametrize(
    ("name", "text", "line", "field", "detail"),
    [
        ("s.yaml", "- scope: core\n  content: ''\n", 2, "content", "the text is empty"),
        ("s.yaml", "- scope: core\n  content: x\n  tier: -1\n", 3, "tier", "no tier"),
        ("s.yaml", "- scope: core\n  contents: x\n", 2, "contents", "no such field"),
        ("s.yaml", "- scope: c\n  content: x\n  tier: [1]\n", 3, "tier", "no whole number"),
        ("s.yaml", "- scope: c\n  content: {a: b}\n", 2, "content", "not a text"),
        ("s.yaml", "- scope: c\n  content: x\n  metadata: {tear: 1}\n", 3, "metadata", "tear"),
        ("s.yaml", "- scope: [\n", 2, "", ""),
        ("s.yaml", "scope: core\n", 1, "", "not a list"),
        ("s.yaml", "- scope: c\n  content: x\n- just text\n", 3, "", "not a segment"),
        ("s.csv", "scope,content\ncore,x\ncore,x,y\n", 3, "", "3 cells"),
        ("s.csv", "name,text\na,b\n", 1, "", "no columns"),
        ("s.csv", "scope,content,active\ncore,x,maybe\n", 2, "active", "neither"),
        ("s.csv", 'scope,content\ncore,"x\ny"\ncore,"x\n', 4, "", "unexpected end"),
        ("s.csv", 'scope,content,priority\ncore,"x\ny",urgent\n', 2, "priority", "urgent"),
        ("s.sql", "SELECT 1;\nCOPY public.s (scope) FROM stdin;\n", 2, "", "COPY"),
        ("s.sql", "\nINSERT INTO s VALUES (1, 'core');", 2, "", "the columns of these values"),
        ("s.sql", "INSERT INTO s (scope, content)\nVALUES ('core');", 2, "", "1 values"),
        (
            "s.sql",
            "INSERT INTO s (scope, content) VALUES\n('a', concat('b'));",
            2,
            "content",
            "comp",
        ),
        (
            "s.sql",
            f"INSERT INTO s (scope, content) VALUES\n(1, {'9' * 5_000});",
            2,
            "content",
            "comp",
        ),
        ("s.yaml", f"- scope: core\n  content: {'9' * 5_000}\n  tier: {'9' * 99}\n", 3, "tier", ""),
        ("s.sql", "INSERT INTO s (scope, content) SELECT a, b FROM c;", 1, "", "computed"),
        ("s.sql", "INSERT INTO s (scope, content) VALUES\n('a', 'b'\n;", 2, "", ""),
        ("s.sql", "INSERT INTO s (scope, content) VALUES ('a', 'b\n", 1, "", ""),
        (
            "s.sql",
            "INSERT INTO s (scope, content, metadata) VALUES\n('a', 'b', '{'),\n('a', 'b', '');",
            2,
            "metadata",
            "not an object",
        ),
    ],
)
def test_segment_file_fault_is_reported_with_line_and_fix(
    tmp_path: Path, name: str, text: str, line: int, field: str, detail: str
) -> None:
    fault = read_segment_files([write_file(tmp_path, name, text)]).faults[0]
    assert (fault.file, fault.line, fault.path) == (str(tmp_path / name), line, field)
    assert detail in fault.what
    assert fault.fix


def test_faults_of_all_segment_files_are_reported_together(tmp_path: Path) -> None:
    first = write_file(tmp_path, "a.yaml", "- scope: A\n  content: ''\n- scope: b\n  content: ''\n")
    second = write_file(tmp_path, "b.csv", "scope,content\nC,x\n")
    faults = read_segment_files([first, second]).faults
    assert [(Path(fault.file).name, fault.line, fault.path) for fault in faults] == [
        ("a.yaml", 2, "content"),
        ("a.yaml", 1, "scope"),
        ("a.yaml", 4, "content"),
        ("b.csv", 2, "scope"),
    ]


def test_segment_file_of_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="bad-option") as refused:
        read_segment_files([write_file(tmp_path, "s.txt", "")])
    assert ".yaml" in refused.value.fix
