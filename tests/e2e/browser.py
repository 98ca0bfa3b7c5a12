"""A real headless browser, controlled over its own debugging pipe.

Two pipes with NUL between messages are enough, so no driver and no websocket are needed. All
requests and errors of the page are recorded for tests.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--remote-debugging-pipe", "--window-size=1440,900"),
    # Foreign names for tests: this machine answers for them all
    "--host-resolver-rules=MAP *.example 127.0.0.1",
)
# The browser reads file descriptor 3 and writes 4
LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)
RECORDED_EVENTS = ("Runtime.exceptionThrown", "Log.entryAdded", "Network.requestWillBeSent")
KEY_CODES = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    " ": 32,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}
NARROW = 600
WAIT_LIMIT = 120.0
"""Seconds until a wait fails and names its expression; the suite ends a test later."""
READ_LIMIT = 64 * 1024 * 1024


@dataclass(repr=False, kw_only=True)
class Browser:
    """One browser with one tab."""

    reader: asyncio.StreamReader
    writer: asyncio.WriteTransport
    tab: str | None = None
    sent: int = 0
    answers: dict[int, asyncio.Future[dict[str, Any]]] = field(
        default_factory=dict[int, asyncio.Future[dict[str, Any]]]
    )
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def read_messages(self) -> None:
        """Read the browser's messages until it ends."""
        while True:
            message = json.loads((await self.reader.readuntil(b"\0"))[:-1])
            if answer := self.answers.pop(message.get("id", 0), None):
                answer.set_result(message)
            elif message.get("method") in RECORDED_EVENTS:
                self.events.append(message)

    async def send_command(self, method: str, **params: object) -> dict[str, Any]:
        """Send a command and return its result."""
        self.sent += 1
        self.answers[self.sent] = asyncio.get_running_loop().create_future()
        message = {"id": self.sent, "method": method, "params": params}
        if self.tab:
            message["sessionId"] = self.tab
        answer = self.answers[self.sent]
        self.writer.write(json.dumps(message).encode() + b"\0")
        response = await answer
        assert "error" not in response, response
        result: dict[str, Any] = response["result"]
        return result

    async def open_page(self, address: str) -> None:
        """Load an address in a fresh page."""
        await self.send_command("Page.navigate", url="about:blank")
        await self.send_command("Page.navigate", url=address)

    async def run_script(self, script: str) -> Any:  # noqa: ANN401 - JSON of any shape
        """Run an expression in the page and return its value, awaited if it is a promise."""
        response = await self.send_command(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in response, response
        return response["result"].get("value")

    async def wait_for(self, script: str) -> Any:  # noqa: ANN401 - JSON of any shape
        """Wait until an expression is true in the page, and return its value."""
        look = f"const look = () => {{ const it = {script}; it ? done(it) : setTimeout(look, 10) }}"
        try:
            async with asyncio.timeout(WAIT_LIMIT):
                return await self.run_script(f"new Promise((done) => {{ {look}; look(); }})")
        except TimeoutError:
            raise AssertionError(f"never true in the page: {script}") from None

    async def trigger_click(self, selector: str) -> None:
        """Click the element of a selector, once it exists."""
        found = f"document.querySelector({json.dumps(selector)})"
        await self.wait_for(f"{found} && ({found}.click(), true)")

    async def press_key(self, key: str, text: str = "") -> None:
        """Press a key as a user does; `text` is what it types, if anything."""
        press = {"key": key, "code": key, "windowsVirtualKeyCode": KEY_CODES[key]}
        typed = {"text": text} if text else {}
        await self.send_command("Input.dispatchKeyEvent", type="keyDown", **press, **typed)
        await self.send_command("Input.dispatchKeyEvent", type="keyUp", **press)

    async def show_as(self, scheme: str, width: int, height: int) -> None:
        """Show the page in a colour scheme and a size."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        await self.send_command("Emulation.setEmulatedMedia", features=[feature])
        await self.send_command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < NARROW,
        )

    async def show_as_opened(self) -> None:
        """Undo `show_as`."""
        await self.send_command("Emulation.clearDeviceMetricsOverride")
        await self.send_command("Emulation.setEmulatedMedia", features=[])

    def list_complaints(self) -> list[dict[str, Any]]:
        """List the errors of the page: exceptions and log entries."""
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self.events if event["method"] in kinds]

    def list_requested_urls(self) -> list[str]:
        """List every address the page requested."""
        requests = [
            event for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]
        return [event["params"]["request"]["url"] for event in requests]


def build_texts_script(selector: str) -> str:
    """Build an expression for the texts of all elements of a selector."""
    return f"[...document.querySelectorAll('{selector}')].map((each) => each.textContent)"


def build_click_script(selector: str, name: str) -> str:
    """Build an expression that clicks the element with a text, once it exists."""
    found = (
        f"[...document.querySelectorAll('{selector}')].find((it) => it.textContent === '{name}')"
    )
    return f"{found} && ({found}.click(), true)"


def build_input_script(selector: str, value: object, event: str) -> str:
    """Build an expression that sets the value of a field and fires its event."""
    box = f"document.querySelector({json.dumps(selector)})"
    return f"({box}.value = {json.dumps(value)}, {box}.dispatchEvent(new Event('{event}')))"


@asynccontextmanager
async def run_browser(folder: Path) -> AsyncGenerator[Browser]:
    """Run a browser with its own profile."""
    assert CHROMIUM
    browser_input, command_pipe = os.pipe()
    answer_pipe, browser_output = os.pipe()
    words = (*FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LAUNCH, str(browser_input), str(browser_output), CHROMIUM, *words),
        pass_fds=(browser_input, browser_output),
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    os.close(browser_input)
    os.close(browser_output)
    browser = await _connect_pipes(answer_pipe, command_pipe)
    reading = asyncio.create_task(browser.read_messages())
    try:
        await _attach_tab(browser)
        yield browser
    finally:
        browser.tab = None
        await browser.send_command("Browser.close")
        await process.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        browser.writer.close()


async def _connect_pipes(answer_pipe: int, command_pipe: int) -> Browser:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=READ_LIMIT)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(answer_pipe, "rb")
    )
    writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(command_pipe, "wb"))
    return Browser(reader=reader, writer=writer)


async def _attach_tab(browser: Browser) -> None:
    target = await browser.send_command("Target.createTarget", url="about:blank")
    attached = await browser.send_command(
        "Target.attachToTarget", targetId=target["targetId"], flatten=True
    )
    browser.tab = attached["sessionId"]
    for part in ("Page", "Runtime", "Log", "Network"):
        await browser.send_command(f"{part}.enable")
