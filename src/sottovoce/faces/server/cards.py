"""Privacy cards, signed like receipts: no letter of the page can change unseen.

The statement that is signed holds what the card says and the SHA-256 of its page with no signature in it. So a page can
be checked by whoever has the public key, whatever version made it, and says nothing but what was signed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from sottovoce.faces.server.receipts import Signer, verify_signed
from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.answers.card import VERSION, Card
from sottovoce.service.answers.card_page import EMPTY_SIGNATURE
from sottovoce.service.ledger.hash_chain import digest

_OPENING = EMPTY_SIGNATURE.removesuffix("</script>")
_PARTS = ("signed", "signature", "key")
_SIGNATURE = re.compile(re.escape(_OPENING) + r"([^<]*)</script>")


def sign_card(card: Card, signer: Signer) -> str:
    """Return the page of a card with its signature in it."""
    page = card.to_html(signer.fingerprint)
    signed = signer.sign(dict(card.content) | {"page": digest(page)})
    return page.replace(EMPTY_SIGNATURE, f"{_OPENING}{_written(signed)}</script>")


def _written(signed: Mapping[str, object]) -> str:
    return json.dumps({name: signed.get(name) for name in _PARTS}).replace("<", "\\u003c")


def verify_card(page: str, public_key: bytes) -> dict[str, object]:
    """Return what a card says if its signature is good and its page is the one that was signed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sottovoce.service.answers.card import card
    >>> from sottovoce.service.ledger import Ledger
    >>> from sottovoce.privacy.promises import PureDP
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> signer = Signer(folder / "key.pem")
    >>> with Ledger(folder / "l", create=True) as ledger:
    ...     budget = ledger.open_budget("patients", PureDP(1.0), n=100, schema={"smoker": "boolean"})
    ...     page = sign_card(card(ledger), signer)
    >>> verify_card(page, signer.public_key)["dataset"]
    'patients'
    """
    result = _SIGNATURE.findall(page)
    if len(result) != 1:
        raise InvalidValue(f"a card has one signature in it. This file has {len(result)}")
    if not result[0]:
        raise InvalidValue("this card is not signed")
    try:
        document = json.loads(result[0])
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise InvalidValue("the signature of this card cannot be read")
    statement = verify_signed(document, public_key, "card")
    if result[0] != _written(document):
        raise InvalidValue("the signature is good, and something was written around it that nobody signed")
    if statement.get("card") not in range(1, VERSION + 1):
        raise InvalidValue(f"this is signed, and no card of a version up to {VERSION}")
    if digest(_SIGNATURE.sub(lambda _: EMPTY_SIGNATURE, page)) != statement.get("page"):
        raise InvalidValue("the signature is good, and the page was altered: it is not the one that was signed")
    return statement
