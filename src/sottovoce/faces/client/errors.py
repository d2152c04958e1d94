"""What a caller of the server can be refused for, beyond the errors of the library: the same classes on either side."""

from __future__ import annotations

import re

from sottovoce.privacy import errors as ours
from sottovoce.privacy.errors import SottovoceError
from sottovoce.service.ledger import EntryPending, KeyTaken


class NotAuthenticated(SottovoceError):
    """No token, or one that is unknown, expired or revoked; which of them is not said."""


class NotAllowed(SottovoceError):
    """The token does not reach this far."""


class NotFound(SottovoceError):
    """There is no such thing, or not for this caller; which of them is not said."""


class TooManyRequests(SottovoceError):
    """The caller asks faster than the limits allow."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class CallerLeft(SottovoceError):
    """The caller hung up; what was being computed for them, free of cost, is given up."""


class ServerStopping(SottovoceError):
    """The server was told to stop. Nothing was spent."""


class ProviderUnavailable(SottovoceError):
    """The provider of identities does not answer, so that nobody new is let in. Nothing was spent."""


class AnswerLost(SottovoceError):
    """The answer failed after the budget was charged. Why may depend on the data, so it is not said."""


class ServerUnreachable(SottovoceError):
    """No server answered, or what answered is none of ours. A question may have been charged: ask it under its key."""


def kind_of(error: Exception) -> str:
    """Return the word for a kind of error that goes over the wire.

    >>> kind_of(TooManyRequests("wait"))
    'too-many-requests'
    """
    return _word(type(error))


def _word(kind: type[Exception]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


_KINDS: dict[str, type[SottovoceError]] = {
    _word(kind): kind
    for kind in (
        *(NotAuthenticated, NotAllowed, NotFound, TooManyRequests, CallerLeft),
        *(ServerStopping, ProviderUnavailable, AnswerLost),
        *(EntryPending, KeyTaken),
        *(one for one in vars(ours).values() if isinstance(one, type) and issubclass(one, SottovoceError)),
    )
}


def error_of(word: str, message: str) -> SottovoceError:
    """Return the error that a word over the wire stands for; what nobody knows is a plain `SottovoceError`.

    >>> error_of("budget-exceeded", "nothing was spent")
    BudgetExceeded('nothing was spent')
    """
    return _KINDS.get(word, ours.InvalidValue if word == "invalid-request" else SottovoceError)(message)
