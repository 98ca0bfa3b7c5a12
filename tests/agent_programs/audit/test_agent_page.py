"""Turns of several calls and phases in a real browser, live and at an earlier event."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.agent_programs.agent_harness import build_loop_blueprint
from tests.agent_programs.agent_service import (
    TWO_STEP_ANSWERS,
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.agent_programs.approvals.test_approval_service import open_team
from tests.agent_programs.approvals.test_approvals import GUARDED_TOOLS
from tests.agent_programs.phases.test_phases import build_four_phase_blueprint, enter_phase
from tests.agent_programs.shipped.test_odd_answers import build_frames
from tests.e2e.axe_checks import AXE_SCRIPT, list_violations, load_axe
from tests.e2e.browser import (
    CHROMIUM,
    Browser,
    build_click_script,
    build_input_script,
    build_texts_script,
    run_browser,
)
from tests.services.media.media_samples import PNG
from tests.support.knowledge.fixed_search import FixedSearch, build_found
from tests.support.servers.model_behaviours import ModelAnswer, ModelRefusal
from turnlog.events.model.child_events import ChildRequested
from turnlog.events.model.retrieval_events import CandidateVote
from turnlog.events.model.tool_events import ToolStarted
from turnlog.services.api.published_errors.turn_failures import TURN_FAILURES
from turnlog.services.cli.views.text_format import format_duration
from turnlog.services.media.incoming_media import IncomingMedia

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
]

MARKUP = "<img src=/x onerror=alert(1)> <b>bold</b> &amp; ${1}"

MINUS = "\N{MINUS SIGN}"

MADE_OF_TEXT = (
    "[...document.querySelectorAll('main img, main b')]"
    ".filter((made) => made.tagName === 'IMG' || made.textContent).length"
)

ANSWER = "document.querySelector('.answer')?.textContent"


ANSWER_PLACE = """(() => {
    const [prompt, answer] = ['.prompt-pane', '.answer-pane']
        .map((each) => document.querySelector(each).getBoundingClientRect());
    return [answer.left >= prompt.right, answer.top >= prompt.bottom];
})()"""
"""Whether the answer is beside the prompt, and whether it is below it."""


BROKEN_FIGURES = """[...document.querySelectorAll('.figure, .legend li')]
    .filter((each) => each.offsetHeight > 30 || each.scrollWidth > each.clientWidth + 1)
    .map((each) => each.textContent)"""
"""Figures that stand on two lines, or that are cut."""


PLAIN_PROFILE = {"default": True, "call": "converse"}

LAST_CALL = "call 1.2 converse"

BAR_PLACES = """[...document.querySelectorAll('.span .bar')].map((bar) =>
    [parseFloat(bar.style.left), parseFloat(bar.style.left) + parseFloat(bar.style.width)])"""
"""Where bars begin and end, in percent of the scale."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with run_browser(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def browser(chromium: Browser) -> AsyncIterator[Browser]:
    """A browser whose page must show no error."""
    await chromium.send_command("Page.navigate", url="about:blank")
    chromium.events.clear()
    yield chromium
    await chromium.send_command("Emulation.clearDeviceMetricsOverride")
    assert chromium.list_complaints() == []


async def show_at_width(browser: Browser, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    await browser.send_command("Emulation.setDeviceMetricsOverride", **size)


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_page_shows_plans_tools_and_phases_and_links_to_hidden_calls(
    platform: AgentService, browser: Browser
) -> None:
    session = await platform.open_session(build_four_phase_blueprint())
    address = f"{platform.gateway.address}/#/sessions/{session}"
    await browser.open_page(address)
    await browser.wait_for(f"{build_texts_script('.threshold')}.join() === 'ideate'")
    await platform.complete_turn(session, answer_with_text("A boat."), text="What could it be?")
    await enter_phase(platform, session, "operate", "a boat")
    carried = "Summary from ideate phase: a boat"
    heading = f"operateafter ideate · sees focus · does not see ideate{carried}"
    await browser.wait_for(f"{build_texts_script('.threshold')}.at(-1) === {json.dumps(heading)}")
    await platform.complete_turn(session, *TWO_STEP_ANSWERS)
    await browser.wait_for(f"{build_texts_script('.bubble.reply')}.at(-1) === 'It is yours.'")
    live = await browser.run_script(build_texts_script(".work li"))
    assert [step.partition(".")[0] for step in live] == ["Find a hammer", "Pay for it"]
    assert 'shop_look{"what": "hammer"}answered · 10 characters' in live[0]
    calls = "call 2.1 plan,call 2.2 tactic,call 2.3 tactic,call 2.4 synthesise"
    await browser.wait_for(f"{build_texts_script('.turn:last-child .why')}.join() === '{calls}'")
    await browser.trigger_click(".use.answered summary a")
    await browser.wait_for(f"{build_texts_script('.proof .good')}.length")
    assert (await browser.run_script("location.hash")).endswith("/calls/2.2")
    recorded = await platform.load_recorded_events(session)
    begun = next(each.sequence for each in recorded if isinstance(each.event, ToolStarted))
    await browser.open_page(f"{address}/at/{begun}")
    await browser.wait_for(f"{build_texts_script('.work .use .faint')}.join() === 'is under way'")


PAID = '{"what": "hammer"}'


async def test_page_requests_approval_and_shows_its_decision(
    platform: AgentService, browser: Browser
) -> None:
    session = await platform.open_session(build_loop_blueprint(tools=GUARDED_TOOLS))
    payment = answer_with_tool_calls(("shop_pay", {"what": "hammer"}))
    platform.provider.queue_behaviours(payment, answer_with_text("It is yours."))
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}")
    await platform.http.post(f"/v1/sessions/{session}/turns", json={"text": "A hammer."})
    facts = build_texts_script(".work .use summary .faint")
    await browser.wait_for(f"{facts}.join() === 'waits for approval 1'")
    arguments = await browser.run_script(build_texts_script(".work .use pre"))
    assert arguments == ['{"what": "hammer"}']
    assert platform.shop.tool_calls == []
    await browser.wait_for(build_click_script(".work .use button", "Approve"))
    await browser.wait_for("document.querySelector('dialog[open]') !== null")
    assert platform.shop.tool_calls == []
    await browser.wait_for(build_click_script("dialog button", "Approve"))
    await browser.wait_for(f"{build_texts_script('.bubble.reply')}.at(-1) === 'It is yours.'")
    assert await browser.run_script(build_texts_script(".work .use button")) == []
    assert platform.shop.tool_calls == [("pay", {"what": "hammer"})]


@pytest.mark.slow("the list is read again every three seconds")
async def test_page_lists_approvals_of_all_sessions_and_decides_one(
    platform: AgentService, browser: Browser
) -> None:
    session = await platform.open_session(build_loop_blueprint(tools=GUARDED_TOOLS))
    payment = answer_with_tool_calls(("shop_pay", {"what": MARKUP}))
    platform.provider.queue_behaviours(payment, answer_with_text("It is yours."))
    await browser.open_page(f"{platform.gateway.address}/#/sessions")
    await browser.trigger_click("#approvals-link")
    await browser.wait_for("document.querySelector('.approvals .empty') !== null")
    body = {"text": "A hammer.", "user": "ada"}
    await platform.http.post(f"/v1/sessions/{session}/turns", json=body)
    links = build_texts_script(".approvals tbody td a")
    await browser.wait_for(f"{links}.join() === '{session}'")
    assert await browser.run_script(MADE_OF_TEXT) == 0
    if AXE_SCRIPT.exists():
        await load_axe(browser)
        assert await list_violations(browser) == []
    for width in (1400, 390):
        await show_at_width(browser, width)
        assert await browser.run_script("document.documentElement.scrollWidth") <= width
    await browser.wait_for(build_click_script(".approvals button", "Refuse"))
    await browser.wait_for(build_click_script("dialog button", "Refuse"))
    await browser.wait_for("document.querySelector('.approvals .empty') !== null")
    assert platform.shop.tool_calls == []
    await browser.run_script("location.hash = '#/approvals?state=refused&user=ada'")
    await browser.wait_for(f"{links}.join() === '{session}'")


async def test_page_runs_a_tool_with_arguments_that_the_person_edited(
    platform: AgentService, browser: Browser
) -> None:
    session = await platform.open_session(build_loop_blueprint(tools=GUARDED_TOOLS))
    payment = answer_with_tool_calls(("shop_pay", {"what": "hammer"}))
    platform.provider.queue_behaviours(payment, answer_with_text("It is yours."))
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}")
    await platform.http.post(f"/v1/sessions/{session}/turns", json={"text": "A hammer."})
    await browser.wait_for(build_click_script(".work .use button", "Approve"))
    await browser.wait_for(f"{build_texts_script('dialog .preview pre')}.join() === '{PAID}'")
    box = "dialog textarea[name=arguments]"
    await browser.run_script(build_input_script(box, '{"what": 3}', "input"))
    await browser.wait_for(build_click_script("dialog button", "Approve"))
    fault = "document.querySelector('dialog .field .fault:not([hidden])')?.textContent"
    await browser.wait_for(f"{fault}?.includes('arguments.what')")
    browser.events.clear()  # The browser notes the 422.
    await browser.run_script(build_input_script(box, '{"what": "nail"}', "input"))
    await browser.wait_for(build_click_script("dialog button", "Approve"))
    await browser.wait_for(f"{build_texts_script('.bubble.reply')}.at(-1) === 'It is yours.'")
    assert platform.shop.tool_calls == [("pay", {"what": "nail"})]
    facts = await browser.run_script(build_texts_script(".work .use summary .faint"))
    assert "edited arguments" in facts[0]


async def test_page_of_coordinator_requests_approval_that_its_child_needs(
    platform: AgentService, browser: Browser
) -> None:
    session = await open_team(platform)
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}")
    await platform.http.post(f"/v1/sessions/{session}/turns", json={"text": "A hammer."})
    await browser.wait_for(f"{build_texts_script('.question pre')}.join() === '{PAID}'")
    await browser.wait_for(build_click_script(".question button", "Approve"))
    await browser.wait_for("document.querySelector('dialog[open]') !== null")
    assert platform.shop.tool_calls == []
    await browser.wait_for(build_click_script("dialog button", "Approve"))
    await browser.wait_for(f"{build_texts_script('.bubble.reply')}.at(-1) === 'It is yours.'")
    assert await browser.run_script(build_texts_script(".question")) == []
    assert platform.shop.tool_calls == [("pay", {"what": "hammer"})]
    (requested,) = await platform.load_events(session, ChildRequested)
    await browser.open_page(
        f"{platform.gateway.address}/#/sessions/{requested.session}/calls/1.1/why"
    )
    of_parent = "[...document.querySelectorAll('.facts a')].map((each) => each.textContent)"
    await browser.wait_for(f"{of_parent}.includes('{session}, turn 1')")
    await browser.wait_for(build_click_script(".facts a", "call 1.1"))
    await browser.wait_for(f"location.hash === '#/sessions/{session}/calls/1.1/why'")


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_prompt_is_shown_beside_answer_of_the_model(
    platform: AgentService, browser: Browser
) -> None:
    session = await platform.open_session(build_loop_blueprint())
    platform.shop.results = [MARKUP]
    usage = {
        "prompt_tokens": 2000,
        "completion_tokens": 100,
        "completion_tokens_details": {"reasoning_tokens": 60},
        "prompt_tokens_details": {"cached_tokens": 300, "cache_write_tokens": 1_200},
    }
    call = (("shop_look", json.dumps({"what": MARKUP})),)
    asked = ModelAnswer(tokens=(MARKUP,), finish="tool_calls", usage=usage, tool_calls=call)
    await platform.complete_turn(session, asked, ModelAnswer(tokens=("Half of",), finish="length"))
    address = f"{platform.gateway.address}/#/sessions/{session}"
    await browser.open_page(f"{address}/calls/1.1")
    await browser.wait_for("document.querySelector('.answer .use.answered')")
    figures = await browser.run_script(build_texts_script(".answer h2 .figure"))
    assert figures[:5] == [
        "2,000 tokens sent",
        "300 tokens cached",
        "1,200 tokens put into the cache",
        "100 tokens received",
        "60 reasoning tokens",
    ]
    assert await browser.run_script(build_texts_script(".answer .finish")) == [
        "the model asked for tools tool_calls"
    ]
    assert await browser.run_script(build_texts_script(".answer-text")) == [MARKUP]
    arguments, result = await browser.run_script(build_texts_script(".answer .use pre"))
    assert arguments == call[0][1]
    assert MARKUP in result
    assert await browser.run_script(MADE_OF_TEXT) == 0
    for width, is_beside in ((1400, True), (390, False)):
        await show_at_width(browser, width)
        assert await browser.run_script(ANSWER_PLACE) == [is_beside, not is_beside]
        assert await browser.run_script("document.documentElement.scrollWidth") <= width
        assert await browser.run_script(BROKEN_FIGURES) == []
    await browser.open_page(f"{address}/calls/1.2")
    await browser.wait_for(f"{ANSWER}?.includes('Half of')")
    assert "the text is incomplete" in await browser.run_script(ANSWER)


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_reasoning_is_folded_at_the_answer_of_its_call_and_a_part_of_the_next_prompt(
    platform: AgentService, browser: Browser
) -> None:
    session = await platform.open_session(build_loop_blueprint())
    function = {"name": "shop_look", "arguments": "{}"}
    asked = build_frames(
        {"reasoning_content": f"I look. {MARKUP}"},
        {"tool_calls": [{"index": 0, "id": "a", "function": function}]},
        finish="tool_calls",
    )
    await platform.complete_turn(session, asked, answer_with_text("There."))
    address = f"{platform.gateway.address}/#/sessions/{session}/calls"
    await browser.open_page(f"{address}/1.1")
    await browser.wait_for("document.querySelector('.answer details.reasoning')")
    details = "document.querySelector('.answer details.reasoning')"
    assert await browser.run_script(f"{details}.open") is False
    summary = await browser.run_script(f"{details}.querySelector('summary').textContent")
    assert summary == f"the model reasoned · {len(f'I look. {MARKUP}')} characters"
    assert await browser.run_script(f"{details}.querySelector('div').textContent") == (
        f"I look. {MARKUP}"
    )
    assert await browser.run_script(MADE_OF_TEXT) == 0
    await browser.open_page(f"{address}/1.2")
    await browser.wait_for("document.body?.textContent.includes('I look.')")
    assert await browser.run_script("document.querySelector('.answer details.reasoning')") is None


async def test_withheld_answer_is_shown_as_withheld(
    platform: AgentService, browser: Browser
) -> None:
    rule = {"name": "no-names", "pattern": "Example"}
    policies = {"safety": {"rules": [rule]}, "replacement": "(Not said.)"}
    session = await platform.open_session(build_loop_blueprint(policies=policies))
    await platform.submit_turn(session, answer_with_text("It was Ms. Example."))
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}/calls/1.1")
    await browser.wait_for("document.querySelector('.answer .withheld')")
    (withheld,) = await browser.run_script(build_texts_script(".answer .withheld"))
    assert withheld.startswith("withheld by the rule no-names: ")
    assert withheld.endswith("Readers get instead: (Not said.)")
    assert "Example" not in await browser.run_script("document.body.textContent")
    # A reply that is redacted while somebody reads it goes from the answer, as from everywhere.
    body = {"turn": 2, "reason": "it names a place", "replacement": "(Not here.)"}
    await platform.complete_turn(session, answer_with_text("It was in Elsewhere."))
    await browser.run_script("location.hash = location.hash.replace('1.1', '2.1')")
    await browser.wait_for(f"{ANSWER}?.includes('Elsewhere')")
    await platform.http.post(f"/v1/sessions/{session}/redactions", json=body)
    await browser.wait_for(f"{ANSWER}?.includes('withheld by an operator: it names a place')")
    assert "Elsewhere" not in await browser.run_script(ANSWER)
    await browser.trigger_click(".answer .withheld a")
    opened = await browser.wait_for("document.querySelector('.detail pre')?.textContent")
    assert '"turnlog.reply-redacted.v1"' in opened


async def test_structured_answer_is_shown_as_formatted_json(
    platform: AgentService, browser: Browser
) -> None:
    schema = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
    messages = [{"system": ["rules"]}, {"user": ["input"]}]
    call = {"messages": messages, "output": {"schema": schema}}
    session = await platform.open_session(
        build_loop_blueprint(calls={"converse": call}, profiles={"agent": PLAIN_PROFILE})
    )
    await platform.complete_turn(session, answer_with_text('{"town":', '"Holm"}'))
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}/calls/1.1")
    await browser.wait_for(f"{ANSWER}?.includes('structured output')")
    (shown,) = await browser.run_script(build_texts_script(".answer-text"))
    assert shown == json.dumps({"town": "Holm"}, indent=2)


async def test_long_text_is_collapsed_until_expanded_and_then_stays_expanded(
    platform: AgentService, browser: Browser
) -> None:
    session = await platform.open_session(build_loop_blueprint())
    text = "\n".join(f"line {number}" for number in range(40))
    look = answer_with_tool_calls(("shop_look", {"what": "hammer"}))
    await platform.complete_turn(session, look, answer_with_text(text))
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}")
    await browser.trigger_click(".work .use summary")
    await browser.wait_for("document.querySelector('.work .use[open]')")
    await browser.wait_for("document.querySelector('.reply .unfold')")
    height = "document.querySelector('.bubble.reply').offsetHeight"
    folded = await browser.run_script(height)
    assert await browser.run_script(build_texts_script(".reply .unfold")) == [
        f"show all {len(text)} characters"
    ]
    await browser.run_script("document.querySelector('.reply .unfold').focus()")
    for kind in ("keyDown", "keyUp"):
        key = {"type": kind, "key": "Enter", "code": "Enter", "text": "\r"}
        await browser.send_command("Input.dispatchKeyEvent", windowsVirtualKeyCode=13, **key)
    expanded = "document.querySelector('.reply .unfold').getAttribute('aria-expanded')"
    await browser.wait_for(f"{expanded} === 'true'")
    assert await browser.run_script(height) > 2 * folded
    # The turn is drawn again with its new mark; what is unfolded and where the focus is stays.
    await platform.http.put(f"/v1/sessions/{session}/turns/1/exclusion")
    await browser.wait_for("document.querySelector('.turn.excluded')")
    assert await browser.run_script(expanded) == "true"
    assert await browser.run_script("document.querySelector('.work .use[open]') !== null")
    assert await browser.run_script("document.activeElement.className") == "quiet unfold"
    assert await browser.run_script(build_texts_script(".reply .unfold")) == ["show less"]


async def test_timeline_of_a_turn_shows_its_spans(platform: AgentService, browser: Browser) -> None:
    session = await platform.open_session(build_loop_blueprint(tools=GUARDED_TOOLS))
    platform.shop.failing_tools = ["look"]
    requests = (("shop_look", {"what": "hammer"}), ("shop_pay", {"what": "hammer"}))
    platform.provider.queue_behaviours(
        answer_with_tool_calls(*requests), answer_with_text("It is yours.")
    )
    await platform.http.post(f"/v1/sessions/{session}/turns", json={"text": "A hammer."})
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}/turns/1")
    await browser.wait_for("document.querySelector('.span.kind-approval.lasting .bar')")
    assert "so far" in await browser.run_script(
        "document.querySelector('.timeline h2').textContent"
    )
    approval = f"/v1/sessions/{session}/turns/1/approvals/1"
    assert (await platform.http.post(approval, json={"decision": "approve"})).status_code == 200
    await browser.wait_for(
        "document.querySelectorAll('.span.kind-call:not(.lasting)').length === 2"
    )
    await browser.wait_for(
        "document.querySelector('.timeline h2 .figures')?.textContent.endsWith('completed')"
    )
    found = await platform.fetch_json(f"/v1/sessions/{session}/turns/1/timeline")
    names = build_texts_script(".span:not(.scale):not(.kind-preparing) .what > :first-child")
    rows = ["until a worker took it", "call 1.1 converse", "approval 1", "shop_look", "shop_pay"]
    wanted = ",".join(sorted([*rows, LAST_CALL]))
    await browser.wait_for(f"{names}.sort().join() === {json.dumps(wanted)}")
    calls = {call["call"]: call for call in await platform.list_calls(session)}
    spans = {span["call"]: span for span in found["spans"] if span["kind"] == "call"}
    lengths = {call: span["length_ms"] for call, span in spans.items()}
    assert lengths == {name: call["times"]["total_ms"] for name, call in calls.items()}
    shown = await browser.run_script(build_texts_script(".kind-call .what .figures"))
    assert shown == [format_duration(length) for length in lengths.values()]
    (failed,) = await browser.run_script(build_texts_script(".span.faulty .what .figures"))
    assert failed.endswith(" · failed")
    assert await browser.run_script(build_texts_script(".why-failed")) == ["the shelf is locked"]
    places = await browser.run_script(BAR_PLACES)
    assert all(0 <= left <= right <= 101 for left, right in places)
    # A bar leads to its event in the record, a name to the prompt of its call.
    await browser.trigger_click(".span.faulty .bar")
    opened = await browser.wait_for("document.querySelector('.detail pre')?.textContent")
    assert '"turnlog.tool-returned.v1"' in opened
    links = await browser.run_script(build_texts_script(".detail .links a"))
    assert links[1:] == ["call 1.1", "timeline of turn 1"]
    await browser.trigger_click(".turn .turn-link")
    await browser.trigger_click(".span.kind-call .what a")
    await browser.wait_for(f"{ANSWER}?.includes('2 tool calls')")
    assert "the shelf is locked" in await browser.run_script(
        "document.querySelector('.answer .use.failed summary').textContent"
    )


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_failure_is_shown_with_meaning_cause_and_action(
    platform: AgentService, browser: Browser
) -> None:
    session = await platform.open_session(build_loop_blueprint())
    refused = await platform.submit_turn(session, ModelRefusal(status=401, message="secret words"))
    assert refused["status"] == "failed"
    address = f"{platform.gateway.address}/#/sessions/{session}"
    text = TURN_FAILURES["unauthorised"]
    for place in (".bubble.fault", ".answer .attempt"):
        await browser.open_page(f"{address}/calls/1.1")
        shown = await browser.wait_for(f"document.querySelector('{place} .failure')?.textContent")
        for words in (text.meaning, text.action, "unauthorised", "cause HTTP 401"):
            assert words[1:] in shown, (place, words)
    await browser.trigger_click(".turn .turn-link")
    reasons = build_texts_script(".why-failed")
    assert text.meaning[1:] in (await browser.wait_for(f"{reasons}.length && {reasons}"))[0]
    # An attempt that was made again has its cause, and there is nothing to do about it.
    await platform.complete_turn(session, ModelRefusal(status=500), answer_with_text("Done."))
    await browser.open_page(f"{address}/calls/2.1")
    failed = "document.querySelector('.answer .attempt.failed .failure')?.textContent"
    shown = await browser.wait_for(failed)
    assert "cause HTTP 500" in shown
    assert "what to do" not in shown


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_retrieved_cases_of_a_call_are_shown_with_their_scores(
    platform: AgentService, browser: Browser
) -> None:
    votes = (
        CandidateVote(session="s-2", sequence=14, vote=0),
        CandidateVote(session="s-1", sequence=12, vote=-1),
    )
    platform.worker.knowledge = search = FixedSearch(
        [
            build_found(MARKUP, "First list the ships.", 0.9, efficiency=0.75, feedback=2),
            build_found("disliked", "Ask nobody.", 0.8, votes=votes),
            build_found("far", "Bake a cake.", 0.3),
        ]
    )
    session = await platform.open_shipped_session("uderia", profile="tool_enabled")
    answers = (answer_with_plan(), answer_with_text("Two."))
    await platform.complete_turn(session, *answers, text="Which ships?")
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}/calls/1.1")
    await browser.wait_for("document.querySelectorAll('.retrieved tbody tr').length === 3")
    rows = await browser.run_script(build_texts_script(".retrieved tbody tr"))
    case = f"champion/{MARKUP} · revision 1 · efficiency 0.75 · votes +2"
    assert rows[0] == f"{MARKUP}{case}0.900.90taken"
    assert rows[1].endswith("0.800.80more votes against it than for it")
    named = f"took a vote back by session s-2, event 14, voted {MINUS}1 by session s-1, event 12"
    assert f"votes {MINUS}1{named}" in rows[1]
    links = "[...document.querySelectorAll('.retrieved th a')].map((each) => each.hash)"
    linked = ["#/sessions/s-2/events/14", "#/sessions/s-1/events/12"]
    assert await browser.run_script(links) == linked
    assert rows[2].endswith("0.300.30below the least confidence")
    if AXE_SCRIPT.exists():
        await load_axe(browser)
        assert await list_violations(browser) == []
    assert await browser.run_script(MADE_OF_TEXT) == 0
    for width in (1400, 390):
        await show_at_width(browser, width)
        assert await browser.run_script("document.documentElement.scrollWidth") <= width
        assert await browser.run_script(BROKEN_FIGURES) == []
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}/calls/1.2")
    await browser.wait_for(f"{ANSWER}?.includes('Two.')")
    assert await browser.run_script("document.querySelectorAll('.retrieved').length") == 0
    later = CandidateVote(session="s-3", sequence=16, vote=1)
    search.hits = (build_found("disliked", "Ask nobody.", 0.8, votes=(later, *votes)),)
    await platform.complete_turn(session, *answers, text="Which ships?")
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}/calls/1.1/diff/2.1")
    voted = f"champion/disliked 0: voted +1 by session s-3, event 16, {named}"
    shown = "document.querySelector('.difference')?.textContent"
    assert voted in await browser.wait_for(f"{shown}?.includes('voted') && {shown}")


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_page_shows_the_picture_that_a_tool_returned(
    platform: AgentService, browser: Browser
) -> None:
    platform.shop.media = (IncomingMedia(PNG, "image/png", "map.png"),)
    session = await platform.open_session(build_loop_blueprint())
    looked = answer_with_tool_calls(("shop_look", {"what": "map"}))
    await platform.complete_turn(session, looked, answer_with_text("A map."))
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}")
    await browser.wait_for("document.querySelector('.use .parts img')")
    await browser.run_script("document.querySelector('.use').open = true")
    await browser.wait_for("document.querySelector('.use .parts img').naturalWidth === 1")
    alt = await browser.run_script("document.querySelector('.use .parts img').alt")
    assert alt == "map.png"
