"""The files of the web page: what they may load, and that none is missing."""

from __future__ import annotations

import posixpath
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import MemoryBackend, start_service
from turnlog.services.gateway.static_ui import STATIC_FOLDER, list_static_files

FILES = {name: (STATIC_FOLDER / name).read_text() for name in sorted(list_static_files())}

SCRIPTS = {name: text for name, text in FILES.items() if name.endswith(".js")}


@pytest_asyncio.fixture
async def http(fresh_tenant: str, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with start_service(MemoryBackend(), fresh_tenant, tmp_path, working=False) as stand:
        yield stand.http


async def test_content_security_policy_allows_only_own_files(http: httpx.AsyncClient) -> None:
    for path in ("/", *(f"/page/{name}" for name in FILES)):
        answer = await http.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["content-security-policy"].startswith("default-src 'self';")
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_unchanged_file_returns_304(http: httpx.AsyncClient) -> None:
    first = await http.get("/page/app/router.js")
    again = await http.get("/page/app/router.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_files_are_compressed_for_whoever_takes_that(http: httpx.AsyncClient) -> None:
    forms = {
        encoding: await http.get("/page/app/router.js", headers={"accept-encoding": encoding})
        for encoding in ("gzip, br", "identity")
    }
    compressed, plain = forms.values()
    assert compressed.headers["content-encoding"] == "gzip"
    assert int(compressed.headers["content-length"]) < int(plain.headers["content-length"]) / 2
    assert compressed.text == plain.text == SCRIPTS["app/router.js"]
    assert "content-encoding" not in plain.headers
    assert compressed.headers["etag"] != plain.headers["etag"]
    assert {form.headers["vary"] for form in forms.values()} == {"accept-encoding"}


async def test_first_load_is_under_120_kilobytes(http: httpx.AsyncClient) -> None:
    index = await http.get("/")
    assert set(re.findall(r'modulepreload" href="/page/([^"]+)"', index.text)) == set(SCRIPTS)
    sizes = [int(index.headers["content-length"])]
    for name in FILES:
        answer = await http.get(f"/page/{name}")
        sizes.append(int(answer.headers["content-length"]))
    assert sum(sizes) < 120_000


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


@pytest.mark.parametrize("name", FILES)
def test_every_referenced_file_exists_and_no_external_url_is_used(name: str) -> None:
    text = FILES[name].replace("http://www.w3.org/2000/svg", "")
    links = set(re.findall(r"/page/([\w./-]+)", text))
    imports = re.findall(r'^import .* from "([^"]+)"', text, re.MULTILINE)
    links |= {posixpath.normpath(f"{posixpath.dirname(name)}/{path}") for path in imports}
    assert links <= set(FILES)
    assert "//" not in re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_do_not_parse_text_as_html(name: str) -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|Function\("
    )
    assert re.search(forbidden, SCRIPTS[name]) is None
