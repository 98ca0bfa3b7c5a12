"""What a person sees who starts a service at a terminal: one block, and an error without a log."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from pathlib import Path

from tests.support.processes.forked_program import get_forked_program

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def run_up_at_terminal(folder: Path, http: str, *, ends_with: str) -> tuple[int, list[str]]:
    """Run `turnlog up` until its screen has a text; return the exit code and the screen."""
    terminal, child = os.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    words = [str(get_forked_program()), "up", "--data-dir", "data", "--http", http]
    with subprocess.Popen(
        words, cwd=folder, stdin=child, stdout=child, stderr=child, env=environ, process_group=0
    ) as process:
        os.close(child)
        seen = ""
        try:
            while ends_with not in seen:
                seen += ESCAPES.sub("", os.read(terminal, 65_536).decode())
            process.send_signal(signal.SIGINT)
            code = process.wait()
        finally:
            process.kill()
            os.close(terminal)
    return code, [line.rstrip() for line in seen.splitlines() if line.strip()]


def test_start_at_a_terminal_prints_one_block(tmp_path: Path) -> None:
    code, screen = run_up_at_terminal(tmp_path, "127.0.0.1:0", ends_with="Ctrl-C ends it.")
    assert code == 0
    head, *rows = screen
    address = re.fullmatch(r"turnlog is up  (http://127\.0\.0\.1:\d+)  data in data", head)
    assert address
    assert [" ".join(row.split()) for row in rows] == [
        f"page {address[1]}/",
        "model scripted/demo, which recites; another one: --model NAME",
        "keys new, in data/credentials and data/snapshot-key",
        "sealed by data/keyring; whoever loses it loses the words, so keep a copy elsewhere",
        "access everybody on this machine; TURNLOG_ROOT_KEY asks for keys",
        "next turnlog chat, in another terminal",
        "Ctrl-C ends it.",
    ]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, screen = run_up_at_terminal(tmp_path, f"127.0.0.1:{port}", ends_with="another port")
    assert code != 0
    assert [" ".join(row.split()) for row in screen] == [
        "error bad-setting http",
        f"cannot listen on 127.0.0.1:{port}: Address already in use",
        "do stop the process that listens there, or choose another port",
    ]
