"""The program of the back-up page that copies streams, where a copy stands still."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import nats
import pytest

from tests.docs.doc_pages import ROOT, list_blocks
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

BEFORE_SENDING = "        try:\n            return await client.request(into, chunk"
"""Where the program sends a piece of a copy."""

STALL = """        if not os.path.exists("stalled"):
            open("stalled", "w").close()
            await asyncio.sleep(6)
"""
"""Once, longer than a server waits."""


@pytest.mark.slow("a server gives up a copy after 5 s")
async def test_copy_that_stood_still_is_begun_again_and_complete(tmp_path: Path) -> None:
    (program,) = (
        block.code
        for block in list_blocks(ROOT / "docs/back-up.md")
        if block.language == "python" and "copy_streams" in block.code
    )
    assert BEFORE_SENDING in program
    stalling = program.replace(BEFORE_SENDING, STALL + BEFORE_SENDING)
    (tmp_path / "copy_streams.py").write_text(stalling)
    streams = ("SESSIONS", "LIBRARY", "ALERTS", "READS", "BLOBS", "KEYS")
    async with await NatsServer.start(NatsConfig(data_dir=tmp_path / "old")) as old:
        async with await nats.connect(old.url) as client:
            for stream in streams:
                settings = json.dumps({"name": stream, "subjects": [f"{stream}.>"]})
                await client.request(f"$JS.API.STREAM.CREATE.{stream}", settings.encode())
                await client.jetstream().publish(f"{stream}.text", b"text")
        await run_program(tmp_path, old.url, "save")
    async with await NatsServer.start(NatsConfig(data_dir=tmp_path / "new")) as new:
        printed = await run_program(tmp_path, new.url, "load")
        assert printed.count("SESSIONS stood still, and is begun again") == 1
        async with await nats.connect(new.url) as client:
            for stream in streams:
                found = await client.jetstream().get_last_msg(stream, f"{stream}.text")
                assert found.data == b"text"


async def run_program(folder: Path, address: str, action: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "copy_streams.py", action, "."),
        cwd=folder,
        env={"NATS_URL": address},
        stdout=PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    return printed.decode()
