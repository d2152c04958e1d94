"""Fixtures for every room."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # so that tests can import what they share: `support.postgres`

from support.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]
