"""What-if comparisons: fetch a report from a service, print it or write it as one HTML page.

They show the totals, then the sessions with the worst first, or the calls of a single session.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from pydantic import JsonValue, TypeAdapter
from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from turnlog.client import ClientOperation
from turnlog.client.operations import format_query
from turnlog.contract import api_paths
from turnlog.contract.prompt_requests import BlueprintFolder, WhatIfRequest
from turnlog.events.errors import Refused, Unavailable
from turnlog.projections.audit.what_if.reassembled_calls import PromptAlteration
from turnlog.projections.audit.what_if.what_if_report import AlterationCount
from turnlog.projections.blueprint.loading.blueprint_source import BLUEPRINT_FILE
from turnlog.services.api.what_if_payloads import (
    CallRefusalView,
    PromptTotalsView,
    WhatIfCall,
    WhatIfFailedSession,
    WhatIfLine,
    WhatIfSession,
    WhatIfStart,
    WhatIfSummary,
    WhatIfTotalsView,
)
from turnlog.services.blueprints.folder_files import MAX_FILE_BYTES
from turnlog.services.cli.actions.verification import create_progress_bar
from turnlog.services.cli.client.service_client import LONG_TIMEOUT_SECONDS, ServiceClient
from turnlog.services.cli.console import (
    OutputFormat,
    create_error_console,
    create_output_console,
    print_json,
)
from turnlog.services.cli.views.text_format import (
    escape_controls,
    format_count,
    format_digest,
    format_money,
)
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING, create_listing

_WHAT_IF_LINE: Final[TypeAdapter[WhatIfLine]] = TypeAdapter(WhatIfLine)


async def stream_what_if(
    service: ServiceClient, form: WhatIfRequest, query: Mapping[str, object]
) -> AsyncGenerator[WhatIfLine]:
    """Stream the lines of a report on the sessions of the form, or on those of a query.

    Raises `Unavailable` if the service breaks off.
    """
    operation = ClientOperation(
        method="POST",
        path=api_paths.WHAT_IF,
        answer=object,
        body=form.model_dump(mode="json", exclude_none=True),
        query=format_query(query),
        timeout=LONG_TIMEOUT_SECONDS,
    )
    async with aclosing(service.stream_lines(operation)) as lines:
        async for line in lines:
            yield _WHAT_IF_LINE.validate_json(line)


def read_blueprint_folder(folder: Path) -> BlueprintFolder:
    """Read all texts of a blueprint folder; raises `Refused` if there is no blueprint in it."""
    folder = folder.resolve()
    if not (folder / BLUEPRINT_FILE).is_file():
        detail = f"there is no {BLUEPRINT_FILE} in {folder}"
        raise Refused("unknown-blueprint", detail, field="--blueprint", fix="name its folder")
    return BlueprintFolder(blueprint=folder.name, files=dict(_read_texts(folder)))


def _read_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield texts by path; hidden files, binary files and links out of the folder are skipped."""
    for file in sorted(folder.rglob("*")):
        place = file.relative_to(folder)
        if any(step.startswith(".") for step in place.parts) or not _is_included(file, folder):
            continue
        try:
            yield place.as_posix(), file.read_bytes().decode()
        except UnicodeDecodeError:
            continue


def _is_included(file: Path, folder: Path) -> bool:
    inside = file.resolve().is_relative_to(folder)
    return inside and file.is_file() and file.stat().st_size <= MAX_FILE_BYTES


@dataclass(frozen=True, slots=True)
class WhatIfResults:
    """All lines of a what-if report."""

    begun: WhatIfStart
    sessions: tuple[WhatIfSession, ...]
    """Ordered by badness, the worst first."""
    untold: tuple[WhatIfFailedSession, ...]
    ended: WhatIfSummary


async def print_what_if(
    service: ServiceClient,
    form: WhatIfRequest,
    query: Mapping[str, object],
    output: OutputFormat,
    html: Path | None,
) -> None:
    """Fetch the report on a change and print it; also write it as HTML if `html` is given."""
    results = await _collect_results(service, form, query)
    if html is not None:
        _write_html(results, html)
    if output == "json":
        print_json(_dump_results(results))
    else:
        create_output_console().print(
            render_what_if(results.begun, results.sessions, results.untold, results.ended)
        )


def _write_html(results: WhatIfResults, html: Path) -> None:
    html.write_text(
        render_html_page(results.begun, results.sessions, results.untold, results.ended)
    )
    create_error_console().print(f"the report is in {html}")


async def _collect_results(
    service: ServiceClient, form: WhatIfRequest, query: Mapping[str, object]
) -> WhatIfResults:
    begun, ended = None, None
    sessions, failed = list[WhatIfSession](), list[WhatIfFailedSession]()
    with create_progress_bar() as bar:
        task = bar.add_task("supposing", total=None)
        async with aclosing(stream_what_if(service, form, query)) as lines:
            async for line in lines:
                match line:
                    case WhatIfStart():
                        begun = line
                        bar.update(task, total=line.sessions)
                    case WhatIfSession():
                        sessions.append(line)
                        bar.advance(task)
                    case WhatIfFailedSession():
                        failed.append(line)
                        bar.advance(task)
                    case WhatIfSummary():
                        ended = line
    if begun is None or ended is None:
        raise Unavailable("the service", "it broke off before the end")
    sessions.sort(key=lambda each: each.badness, reverse=True)
    return WhatIfResults(begun, tuple(sessions), tuple(failed), ended)


def _dump_results(results: WhatIfResults) -> JsonValue:
    sessions: list[JsonValue] = [each.model_dump(mode="json") for each in results.sessions]
    failed: list[JsonValue] = [each.model_dump(mode="json") for each in results.untold]
    return {
        **results.begun.model_dump(mode="json", exclude={"line", "sessions"}),
        "total": results.ended.model_dump(mode="json", exclude={"line"}),
        "sessions": sessions,
        "untold": failed,
    }


MAX_SHOWN: Final = 10
"""Sessions listed, or calls of a single session; the JSON has all."""

_CHANGE_COLOURS: Final = {
    "cut": BAD,
    "gone": WARNING,
    "uncut": GOOD,
    "added": GOOD,
    "changed": WARNING,
}

_CHANGE_WORDS: Final = {"uncut": "no longer cut"}


def render_what_if(
    begun: WhatIfStart,
    sessions: Sequence[WhatIfSession],
    failed: Sequence[WhatIfFailedSession],
    ended: WhatIfSummary,
) -> RenderableType:
    """Render a report; `sessions` must be ordered with the worst first."""
    return Group(*_render_sections(begun, sessions, failed, ended))


def _render_sections(
    begun: WhatIfStart,
    sessions: Sequence[WhatIfSession],
    failed: Sequence[WhatIfFailedSession],
    ended: WhatIfSummary,
) -> Iterator[RenderableType]:
    yield Text("what if ", "bold").append(format_change(begun), "bold")
    yield _render_totals(ended)
    if ended.refused:
        yield Text("\ncalls that would have failed", BAD)
        yield from (_render_refusal(each.calls, each.code, each.detail) for each in ended.refused)
    if ended.altered:
        yield Text("\nwhat would change", MUTED)
        yield _render_altered(ended.altered)
    if len(sessions) == 1:
        yield from _render_calls(sessions[0])
    elif sessions:
        yield Text("\nsessions, the worst first", MUTED)
        yield _render_session_rows(sessions[:MAX_SHOWN])
        if len(sessions) > MAX_SHOWN:
            yield Text(f"{len(sessions) - MAX_SHOWN:,} more: -o json, or --html FILE", MUTED)
    if begun.behind:
        lacking = format_count(begun.behind, "event")
        yield Text(f"the read models lack {lacking}, and perhaps a session", WARNING)
    for each in failed:
        yield Text(f"✗ {each.session} ", BAD).append(escape_controls(each.detail), "default")
    yield Rule(style=MUTED)
    yield Text(begun.exact, MUTED)


def format_change(begun: WhatIfStart) -> str:
    """Format the change that is compared: blueprint, budget and model."""
    blueprint = begun.blueprint
    parts = [
        *([f"{blueprint.blueprint} v{blueprint.version} {format_digest(blueprint.digest)}"]
          if blueprint else []),
        *([f"a budget of {begun.budget:,} tokens"] if begun.budget else []),
        *([f"model {begun.model}"] if begun.model else []),
    ]  # fmt: skip
    return escape_controls(" · ".join(parts))


def _render_totals(found: WhatIfSummary) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=MUTED, justify="right")
    grid.add_column()
    recorded = Text(
        f"{format_count(found.sessions, 'session')}, {format_count(found.calls, 'call')}"
    )
    same = f" · {found.same:,} identical" if found.same else ""
    grid.add_row("recorded", recorded.append(same, MUTED))
    made = Text(f"{found.again:,} of {found.calls:,}", GOOD if found.again == found.calls else BAD)
    grid.add_row("could be made", made)
    grid.add_row(
        "tokens",
        _render_figures(found.before.tokens, found.after.tokens).append(_render_counters(found)),
    )
    grid.add_row("largest", _render_figures(found.before.largest, found.after.largest))
    grid.add_row(
        "cache reuses",
        _render_figures(found.before.prefix, found.after.prefix, more=GOOD, less=BAD),
    )
    grid.add_row("prompts cost", _render_cost(found))
    return grid


def _render_figures(before: int, after: int, more: str = WARNING, less: str = GOOD) -> Text:
    line = Text(f"{before:,} → {after:,}")
    return (
        line
        if before == after
        else line.append("  ").append(_render_share(before, after, more, less))
    )


def _render_share(before: int, after: int, more: str, less: str) -> Text:
    if before == after:
        return Text("as it was", MUTED)
    share = f"{(after - before) / before:+.0%}" if before else "new"
    return Text(share, more if after > before else less)


def _render_counters(found: WhatIfTotalsView) -> Text:
    before, after = found.before.counters, found.after.counters
    if before == after or not after:
        return Text()
    note = f"  counted by {', '.join(before)}, then by {', '.join(after)}: not of one measure"
    return Text(note, WARNING)


def _render_cost(found: WhatIfTotalsView) -> Text:
    before, after = found.before, found.after
    line = Text(f"{format_prompts_cost(before)} → {format_prompts_cost(after)}")
    return line.append(f"  {_format_models(found)}", MUTED)


def format_prompts_cost(side: PromptTotalsView) -> str:
    """Format what the prompts of one side cost."""
    return format_money(side.micro_dollars, guessed=side.guessed)


def _format_models(found: WhatIfTotalsView) -> str:
    before, after = sorted(found.before.models), sorted(found.after.models)
    return ", ".join(before) if before == after else f"{', '.join(before)} → {', '.join(after)}"


def _render_refusal(calls: int, code: str, detail: str) -> Text:
    return Text(f"  {format_count(calls, 'call')} ", BAD).append(
        f"{code}: {escape_controls(detail)}", "default"
    )


def _render_altered(altered: Iterable[AlterationCount]) -> Table:
    table = create_listing()
    for title in ("layer", "how", "by"):
        table.add_column(title, no_wrap=True)
    for title in ("calls", "pieces"):
        table.add_column(title, justify="right")
    for each in altered:
        how = Text(_CHANGE_WORDS.get(each.how, each.how), _CHANGE_COLOURS[each.how])
        numbers = (f"{each.calls:,}", f"{each.pieces:,}")
        table.add_row(escape_controls(each.layer), how, escape_controls(each.rule or ""), *numbers)
    return table


def _render_session_rows(sessions: Iterable[WhatIfSession]) -> Table:
    table = create_listing()
    table.add_column("session", no_wrap=True)
    for title in ("calls", "not made", "cut"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("tokens", no_wrap=True)
    table.add_column("cache", no_wrap=True)
    for each in sessions:
        lost = each.calls - each.again
        cut = sum(one.pieces for one in each.altered if one.how == "cut")
        table.add_row(
            each.session,
            f"{each.calls:,}",
            Text(f"{lost:,}", BAD if lost else MUTED),
            Text(f"{cut:,}", BAD if cut else MUTED),
            _render_figures(each.before.tokens, each.after.tokens),
            _render_share(each.before.prefix, each.after.prefix, more=GOOD, less=BAD),
        )
    return table


def _render_calls(session: WhatIfSession) -> Iterator[RenderableType]:
    if not session.worst:
        return
    yield Text(f"\ncalls of {session.session}, the worst first", MUTED)
    for each in session.worst[:MAX_SHOWN]:
        yield _render_call(each)


def _render_call(each: WhatIfCall) -> Text:
    line = Text(f"call {each.call}  ", "bold")
    if each.after is None or each.refused is not None:
        return line.append_text(render_misfit(each.refused) if each.refused else Text())
    line.append_text(_render_figures(each.before.tokens, each.after.tokens)).append(" tokens")
    line.append("".join(f"\n  {format_alteration(one)}" for one in each.altered), MUTED)
    return line


def render_misfit(refused: CallRefusalView) -> Text:
    """Render why a call could not have been made, and the layers that are always kept."""
    line = Text(f"{refused.code} ", BAD).append(escape_controls(refused.detail), "default")
    if refused.over is not None:
        kept = ", ".join(f"{each.layer} {each.tokens:,}" for each in refused.kept)
        line.append(
            f"\n  {refused.over:,} tokens too many; always kept: {escape_controls(kept)}", MUTED
        )
    return line


def format_alteration(one: PromptAlteration) -> str:
    """Format one altered part of a call on one line."""
    what = one.layer
    if one.first is not None:
        what = f"turn {one.first}" if one.first == one.last else f"turns {one.first}-{one.last}"
    if one.segment is not None:
        what = f"{one.layer} segment {one.segment}"
    by = f" by {one.rule}" if one.rule else ""
    return escape_controls(f"{what} {_CHANGE_WORDS.get(one.how, one.how)}{by}")


DETAILED_SESSIONS: Final = 200
"""Sessions whose calls are listed; more would make the page too large to open."""


def render_html_page(
    begun: WhatIfStart,
    sessions: Sequence[WhatIfSession],
    failed: Sequence[WhatIfFailedSession],
    ended: WhatIfSummary,
) -> str:
    """Render the report as one HTML page without scripts or external resources.

    `sessions` must be ordered with the worst first.
    """
    # Importing jinja2 takes time that only a report should cost.
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = files("turnlog.services.cli.what_if").joinpath("page.html").read_text()
    return environment.from_string(template).render(
        begun=begun,
        change=format_change(begun),
        sessions=sessions,
        untold=failed,
        total=ended,
        detailed=DETAILED_SESSIONS,
        widest=max((1, *(max(each.before.tokens, each.after.tokens) for each in sessions))),
        figure="{:,}".format,
        share=format_share,
        counted=format_count,
        cost=format_prompts_cost,
        otherwise=format_alteration,
    )


def format_share(after: int, before: int) -> str:
    """Format the relative change from `before` to `after`."""
    if not before:
        return "new" if after else "as it was"
    return f"{(after - before) / before:+.0%}" if after != before else "as it was"
