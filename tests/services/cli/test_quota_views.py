"""How the limit of a tenant's media is shown, beside the quotas of its users."""

from __future__ import annotations

import pytest
from rich.console import Console, RenderableType

from tests.services.cli.conftest import RunCommand
from turnlog.contract.usage_payloads import MediaLimitView, QuotaPage
from turnlog.services.cli.quotas.quota_view import render_media_limit, render_quotas

LIMITED = MediaLimitView(
    sequence=3, limit=50_000_000, stored=49_000_000, items=12, reserved=4_000, left=996_000
)

UNLIMITED = MediaLimitView(sequence=0, limit=None, stored=None, items=None, reserved=0, left=None)


def print_text(shown: RenderableType) -> str:
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        console.print(shown)
    return captured.get()


def test_limit_of_media_stands_below_the_quotas_of_users() -> None:
    shown = print_text(render_quotas(QuotaPage(sequence=0, quotas=(), media=LIMITED)))
    assert shown.splitlines() == [
        "no user has a quota",
        "media: 49,000,000 of 50,000,000 bytes in 12 items, 4,000 are being stored; 996,000 left",
    ]


def test_tenant_without_a_limit_of_media_reads_of_it_only_where_it_asks() -> None:
    listed = print_text(render_quotas(QuotaPage(sequence=0, quotas=(), media=UNLIMITED)))
    assert listed.splitlines() == ["no user has a quota"]
    assert print_text(render_media_limit(UNLIMITED)) == "media: unlimited, and not counted\n"


@pytest.mark.parametrize("text", ["50MB", "", "1e6", "none"])
def test_limit_that_is_no_number_of_bytes_is_refused(turnlog: RunCommand, text: str) -> None:
    ran = turnlog("quota", "media", text)
    assert (ran.code, "number of bytes" in ran.err) == (2, True), ran.err
