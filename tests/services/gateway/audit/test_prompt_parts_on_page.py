"""The page shows each part of a prompt with its own text, also where messages are joined."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

NODE = shutil.which("node")

STATIC = Path(str(resources.files("turnlog.services.gateway"))) / "static"

PROGRAM = """
import { readFileSync } from "node:fs";
import { splitMessages } from "./audit/prompt_parts.js";
const { contents, parts } = JSON.parse(readFileSync(0, "utf8"));
const messages = contents.map((content) => ({ content }));
const passages = splitMessages(messages, { parts });
console.log(JSON.stringify(passages.map((each) => each.map(({ text }) => text))));
"""


def build_part(message: int, characters: int, before: str = "", *, run: bool = False) -> object:
    source = {"view": "recent"} if run else {"text": ""}
    sizes = {"message": message, "characters": characters, "before": before}
    return {"role": "user", "source": source, **sizes}


@pytest.mark.skipif(NODE is None, reason="no `node` on PATH")
@pytest.mark.parametrize(
    ("contents", "parts", "shown"),
    [
        (
            ["Rules", "Q1", "A1", "Now?"],
            [build_part(0, 5), build_part(1, 4, run=True), build_part(3, 4)],
            [["Rules"], ["Q1"], ["A1"], ["Now?"]],
        ),
        (
            ["Rules", "Q1", "A1", "Note\n\nQ2", "A2", "Note2\n\nNow?"],
            [
                build_part(0, 5),
                build_part(1, 8, run=True),
                build_part(3, 11, "\n\n", run=True),
                build_part(5, 6, "\n\n"),
            ],
            [["Rules"], ["Q1"], ["A1"], ["Note", "Q2"], ["A2"], ["Note2", "Now?"]],
        ),
    ],
    ids=["messages of their own", "joined"],
)
def test_texts_of_runs_and_layers_are_told_apart(
    tmp_path: Path, contents: list[str], parts: list[object], shown: list[list[str]]
) -> None:
    assert NODE
    folder = tmp_path / "page"
    shutil.copytree(STATIC, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "split.js").write_text(PROGRAM)
    done = subprocess.run(
        [NODE, folder / "split.js"],
        input=json.dumps({"contents": contents, "parts": parts}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == shown
