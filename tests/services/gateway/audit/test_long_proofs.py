"""A proof of a call stays small however long its session is; the whole length with FAULTS=all."""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.services.gateway.gateway_service import MemoryBackend, start_service
from tests.support.processes.service_connection import connect_service
from turnlog.projections.audit.export.proof_format import PROOF_BYTES
from turnlog.services.audit.checkpoint_signatures import sign_checkpoint
from turnlog.services.cli.actions.proof_files import ProofFiles, create_proof_file
from turnlog.services.cli.client.verification_reads import fetch_checkpoint

TURNS: Final = 1_000 if os.environ.get("FAULTS") == "all" else 10

KEY = Ed25519PrivateKey.generate()

SIGNER = b64encode(KEY.public_key().public_bytes_raw()).decode()


async def write_proofs(folder: Path) -> list[Path]:
    """Run a session of the shipped assistant; prove its first call, one in the middle, the last."""
    proofs = list[Path]()
    async with start_service(MemoryBackend(), "golden", folder) as stand:
        await stand.open_session("assistant", session="long")
        for number in range(TURNS):
            stand.model.scripts = [[f"Of {number} the log says what it says of all numbers. " * 3]]
            path, text = "/v1/sessions/long/turns?wait=60", f"What of {number}? " * 8
            answer = await stand.http.post(path, json={"text": text})
            assert answer.status_code == 200, answer.text
        service, checkpoint = connect_service(stand.http), folder / "checkpoint.json"
        checkpoint.write_text(
            sign_checkpoint(await fetch_checkpoint(service), KEY).model_dump_json()
        )
        for turn in (1, TURNS // 2, TURNS):
            place = folder / str(turn)
            place.mkdir()
            files = ProofFiles(
                proof=place / "proof.json",
                checkpoint=checkpoint,
                verifier=place / "verify_proof.py",
            )
            await create_proof_file(service, "long", f"{turn}.1", files, whole=False)
            proofs.append(files.proof)
    return proofs


def verify_alone(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the one file as a stranger does, in a folder with nothing but the proof."""
    assert {each.name for each in folder.iterdir()} == {"proof.json", "verify_proof.py"}
    command = [sys.executable, "-I", "-S", "verify_proof.py", "proof.json", "--key", SIGNER]
    return subprocess.run(command, cwd=folder, env={}, capture_output=True, text=True, check=False)


@pytest.mark.promise("P17")
@pytest.mark.timeout(600)
async def test_proofs_of_a_session_of_a_thousand_turns_have_less_than_twenty_kilobytes(
    tmp_path: Path,
) -> None:
    for proof in await write_proofs(tmp_path):
        assert proof.stat().st_size < PROOF_BYTES // 2
        ran = verify_alone(proof.parent)
        assert (ran.returncode, ran.stdout.splitlines()[-1:]) == (0, ["verified"]), ran.stderr
