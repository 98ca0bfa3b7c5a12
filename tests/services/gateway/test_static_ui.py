"""The files of the web page: what they may load, and that none is missing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import MemoryBackend, start_service
from turnlog.services.gateway.page_linking import EXPORT, IMPORT, STYLE_IMPORT
from turnlog.services.gateway.static_ui import read_sources

SOURCES = read_sources()

SCRIPTS = {name: text for name, text in SOURCES.items() if name.endswith(".js")}

SERVED = ("/", "/page/icon.svg", "/page/scripts.js", "/page/styles.css")


@pytest_asyncio.fixture
async def http(fresh_tenant: str, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with start_service(MemoryBackend(), fresh_tenant, tmp_path, working=False) as stand:
        yield stand.http


async def test_content_security_policy_allows_only_own_files(http: httpx.AsyncClient) -> None:
    for path in SERVED:
        answer = await http.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["content-security-policy"].startswith("default-src 'self';")
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_unchanged_file_returns_304(http: httpx.AsyncClient) -> None:
    first = await http.get("/page/scripts.js")
    again = await http.get("/page/scripts.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_files_are_compressed_for_whoever_takes_that(http: httpx.AsyncClient) -> None:
    forms = {
        encoding: await http.get("/page/scripts.js", headers={"accept-encoding": encoding})
        for encoding in ("gzip, br", "identity")
    }
    compressed, plain = forms.values()
    assert compressed.headers["content-encoding"] == "gzip"
    assert int(compressed.headers["content-length"]) < int(plain.headers["content-length"]) / 2
    assert compressed.text == plain.text
    assert "content-encoding" not in plain.headers
    assert compressed.headers["etag"] != plain.headers["etag"]
    assert {form.headers["vary"] for form in forms.values()} == {"accept-encoding"}


async def test_first_load_is_four_files_of_under_120_kilobytes(http: httpx.AsyncClient) -> None:
    index = await http.get("/")
    named = set(re.findall(r'(?:href|src)="(/page/[^"]+)"', index.text))
    assert {"/", *named} == set(SERVED)
    sizes = [int((await http.get(path)).headers["content-length"]) for path in SERVED]
    assert sum(sizes) < 120_000


async def test_scripts_and_styles_are_linked_whole(http: httpx.AsyncClient) -> None:
    scripts = (await http.get("/page/scripts.js")).text
    assert [scripts.count(f'linked["{name}"] = ') for name in SCRIPTS] == [1] * len(SCRIPTS)
    styles = (await http.get("/page/styles.css")).text
    for name, text in SOURCES.items():
        if name.endswith(".css") and name != "styles/styles.css":
            assert text in styles, name


async def test_other_paths_return_404(http: httpx.AsyncClient) -> None:
    for path in (
        "none.js",
        "..%2Fstatic_ui.py",
        "%2e%2e/static_ui.py",
        "app",
        "app/..%2findex.html",
        "__init__.py",
        "",
    ):
        answer = await http.get(f"/page/{path}")
        assert answer.status_code == 404, path
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("name", SOURCES)
def test_no_external_url_is_used(name: str) -> None:
    text = SOURCES[name].replace("http://www.w3.org/2000/svg", "")
    assert set(re.findall(r"/page/[\w./-]+", text)) <= set(SERVED)
    assert "//" not in re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_have_the_forms_that_can_be_linked(name: str) -> None:
    text = SCRIPTS[name]
    rest = EXPORT.sub("", IMPORT.sub("", text))
    assert (
        re.findall(r"^\s*(?:import|export)\b.*|\bimport[.(].*|^await .*", rest, re.MULTILINE) == []
    )
    assert text.endswith("\n")


def test_styles_import_before_all_else() -> None:
    importing = [name for name, text in SOURCES.items() if STYLE_IMPORT.search(text)]
    assert importing == ["styles/styles.css"]
    assert STYLE_IMPORT.sub("", SOURCES["styles/styles.css"]).strip() == ""


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_do_not_parse_text_as_html(name: str) -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|Function\("
    )
    assert re.search(forbidden, SCRIPTS[name]) is None
