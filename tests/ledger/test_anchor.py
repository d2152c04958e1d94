from pathlib import Path

import pytest

from sottovoce.privacy.errors import LedgerCorrupt, LedgerUnavailable
from sottovoce.service.ledger.anchor import Anchor
from sottovoce.service.ledger.hash_chain import EMPTY, Head

HEAD = Head(12, "ab" * 32)


def test_it_reads_what_was_written_last(tmp_path: Path) -> None:
    anchor = Anchor.beside(tmp_path / "x.ledger")
    assert anchor.read() == EMPTY
    for head in (Head(123456789, "cd" * 32), HEAD):
        anchor.write(head)
        assert anchor.read() == head
    anchor.close()
    assert Anchor.beside(tmp_path / "x.ledger").read() == HEAD
    assert anchor.path.name == "x.ledger-anchor"


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    anchor = Anchor.beside(tmp_path / "x.ledger")
    anchor.write(HEAD)
    whole = anchor.path.read_bytes()
    for place in range(0, len(whole), 7):
        anchor.path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(LedgerCorrupt, match="is damaged"):
            anchor.read()
    anchor.path.write_bytes(b"\xff" * 100)
    with pytest.raises(LedgerCorrupt, match="is damaged"):
        anchor.read()


def test_an_empty_anchor_says_nothing(tmp_path: Path) -> None:
    anchor = Anchor.beside(tmp_path / "x.ledger")
    anchor.path.touch()
    assert anchor.read() == EMPTY


def test_an_anchor_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    anchor = Anchor.beside(tmp_path / "x.ledger")
    anchor.path.mkdir()
    anchor.write(HEAD)  # the transaction it notes is durable already, so this must not fail
    with pytest.raises(LedgerUnavailable, match="cannot read the anchor"):
        anchor.read()
