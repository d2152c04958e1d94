"""What a caller of the server can be refused for: the classes that its client raises too."""

from sottovoce.faces.client.errors import (
    AnswerLost,
    CallerLeft,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    ServerStopping,
    TooManyRequests,
)

__all__ = [
    "AnswerLost",
    "CallerLeft",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "ServerStopping",
    "TooManyRequests",
]
