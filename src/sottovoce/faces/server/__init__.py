"""The server: analysts ask over the network, the data stays behind."""

from sottovoce.faces.server.config import Config, read_config
from sottovoce.faces.server.service import Service

__all__ = ["Config", "Service", "read_config"]
