"""What a caller of the server can be refused for, beyond the errors of the library."""

from sottovoce.privacy.errors import SottovoceError

__all__ = [
    "AnswerLost",
    "CallerLeft",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "ServerStopping",
    "TooManyRequests",
]


class NotAuthenticated(SottovoceError):
    """No token, or one that is unknown, expired or revoked; which of them is not said."""


class NotAllowed(SottovoceError):
    """The token does not reach this far."""


class NotFound(SottovoceError):
    """There is no such thing, or not for this caller; which of them is not said."""


class TooManyRequests(SottovoceError):
    """The caller asks faster than the limits allow."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class CallerLeft(SottovoceError):
    """The caller hung up; what was being computed for them, free of cost, is given up."""


class ServerStopping(SottovoceError):
    """The server was told to stop. Nothing was spent."""


class AnswerLost(SottovoceError):
    """The answer failed after the budget was charged. Why may depend on the data, so it is not said."""
