"""Receipts: good as they are, and bad after any change."""

from __future__ import annotations

import base64
import json
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from sottovoce.faces.server.config import Config
from sottovoce.faces.server.receipts import Signer, verify_receipt
from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.ledger import Ledger
from support.offices import ask


@pytest.fixture(scope="module")
def answer(client: httpx.Client, ada: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = ask(client, ada, query="1 - theta").json()
    return found


@pytest.fixture(scope="module")
def key(client: httpx.Client) -> bytes:
    return str(client.get("/api/v1/key").json()["key"]).encode()


def test_a_receipt_says_what_the_ledger_says(
    client: httpx.Client, ada: dict[str, str], office: Config, answer: dict[str, Any], key: bytes
) -> None:
    statement = verify_receipt(answer["receipt"], key, answer["release"])
    with Ledger(office.ledger) as ledger:
        entry = next(e for e in ledger.entries("patients") if e.id == answer["entry"])
    assert statement["value_hash"] == entry.value_hash
    assert statement["question"] == entry.request
    assert statement["profile"] == entry.profile_state
    assert statement["cost"] == {"yours": entry.cost, "whole": entry.whole_cost}
    with Ledger(office.ledger) as ledger:
        part, whole = ledger.budget("patients/ada"), ledger.budget("patients")
    assert statement["share"] == {"yours": part.share(entry.cost), "whole": whole.share(entry.whole_cost)}
    assert (statement["analyst"], statement["n"], statement["dataset"]) == ("ada", 400, "patients")
    assert json.dumps(answer["release"]["value"]["mean"]) not in answer["receipt"]["signed"]
    path = f"/api/v1/datasets/patients/answers/{answer['entry']}/receipt"
    assert client.get(path, headers=ada).json() == answer["receipt"]


def test_any_change_is_found(answer: dict[str, Any], key: bytes) -> None:
    receipt = answer["receipt"]
    for place in range(0, len(receipt["signed"]), 37):
        text = receipt["signed"]
        changed = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
        with pytest.raises(InvalidValue, match="does not fit"):
            verify_receipt(receipt | {"signed": changed}, key)
    other = answer["release"] | {"value": {"query": "1 - theta", "answer": 0.5}}
    with pytest.raises(InvalidValue, match="another release"):
        verify_receipt(receipt, key, other)
    for wrong in ({"signature": "AAAA"}, {"signature": "é"}, {"signature": 3}, {"signed": None}):
        with pytest.raises(InvalidValue):
            verify_receipt(receipt | wrong, key)


def test_another_key_does_not_fit(answer: dict[str, Any], tmp_path: Path) -> None:
    other = Signer(tmp_path / "key.pem")
    with pytest.raises(InvalidValue, match=f"this key is {other.fingerprint}"):
        verify_receipt(answer["receipt"], other.public_key)
    with pytest.raises(InvalidValue, match="public key in PEM"):
        verify_receipt(answer["receipt"], b"nothing")


def test_what_is_signed_and_no_receipt_is_refused(tmp_path: Path) -> None:
    signer = Signer(tmp_path / "key.pem")
    with pytest.raises(InvalidValue, match="no receipt"):
        verify_receipt(signer.sign({"hello": 1}), signer.public_key)


def test_the_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    assert Signer(path).fingerprint == Signer(path).fingerprint
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["key.pem"]
    path.write_text("nothing")
    with pytest.raises(InvalidValue, match="no Ed25519"):
        Signer(path)
    with pytest.raises(InvalidValue, match="cannot make"):
        Signer(tmp_path / "nowhere" / "key.pem")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to play the third party")
def test_a_third_party_checks_it_without_our_code(answer: dict[str, Any], key: bytes, tmp_path: Path) -> None:
    receipt = answer["receipt"]
    (tmp_path / "server.pem").write_bytes(key)
    (tmp_path / "signature").write_bytes(base64.b64decode(receipt["signature"]))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "server.pem"]
    command += ["-rawin", "-in", "signed", "-sigfile", "signature"]
    for text, good in ((receipt["signed"], True), (receipt["signed"] + " ", False)):
        (tmp_path / "signed").write_text(text)
        assert (subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0) == good
