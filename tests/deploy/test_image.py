"""The content of the Dockerfile: its sources, its user and its port."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

from tests.deploy.compose_file import ROOT, load_services

FILE = ROOT / "deploy/Dockerfile"
IGNORED = ROOT / "deploy/Dockerfile.dockerignore"


def find_lines(word: str) -> list[str]:
    """Return the arguments of each line with an instruction."""
    found: list[str] = re.findall(rf"^{word} (.+)$", FILE.read_text(), re.MULTILINE)
    return found


def list_copied_paths() -> list[str]:
    """Name what is copied from the repository."""
    outer = [words for words in map(shlex.split, find_lines("COPY")) if "--from=built" not in words]
    return [source for words in outer for source in words[:-1]]


def test_every_copied_file_exists_and_is_not_ignored() -> None:
    kept = {line[1:] for line in IGNORED.read_text().splitlines() if line.startswith("!")}
    for source in list_copied_paths():
        assert (ROOT / source).exists()
        assert any(Path(source).match(pattern) for pattern in kept), source


def test_every_installed_package_is_pinned_by_hash_or_built_here() -> None:
    installs = [line for line in find_lines("RUN") if " install " in line and "pip" in line]
    assert len(installs) == 3
    for line in installs:
        assert "--require-hashes -r requirements" in line or "--no-deps /wheels/" in line


def test_image_runs_on_the_python_that_the_packages_require() -> None:
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert {image.split()[0] for image in find_lines("FROM")} == {
        f"python:{oldest.removeprefix('>=')}-slim-bookworm"
    }


def test_process_runs_as_a_numeric_user_that_is_not_root() -> None:
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", find_lines("USER")[-1])
    last_words = re.findall(r"^([A-Z]+) ", FILE.read_text(), re.MULTILINE)[-3:]
    assert last_words == ["USER", "EXPOSE", "CMD"]


def test_exposed_port_is_the_port_of_the_gateway() -> None:
    gateway = load_services()["gateway"]
    assert find_lines("EXPOSE") == [gateway.environment["TURNLOG_HTTP"].rpartition(":")[2]]


def test_log_folder_belongs_to_the_user_of_the_image() -> None:
    user, group = find_lines("USER")[-1].split(":")
    made = next(line for line in find_lines("RUN") if "/var/lib/nats" in line)
    assert f"--owner={user}" in made
    assert f"--group={group}" in made
    mounted = load_services()["nats"].stanza["volumes"]
    assert "log:/var/lib/nats" in mounted
