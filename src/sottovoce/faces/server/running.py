"""Running the server: Uvicorn with our limits, one or several worker processes, TLS, a graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import logging.config
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from sottovoce.faces.server.app import CONFIG_VARIABLE
from sottovoce.faces.server.config import Config, read_config
from sottovoce.faces.server.logs import LOGGING
from sottovoce.faces.server.metrics import FOLDER_VARIABLE
from sottovoce.faces.server.service import Service
from sottovoce.privacy.errors import InvalidValue, SottovoceError

_log = logging.getLogger("sottovoce.faces.server")


def check_address(config: Config) -> None:
    """Refuse an address that cannot be listened at: it is another's, or there is none."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as listening:
            if os.name == "posix":  # elsewhere it would let two servers share an address
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
    except OSError as error:
        where = f"{config.host}, port {config.port}"
        raise InvalidValue(f"cannot listen at {where}: {error.strerror}; name another in [server]") from None


def serve(config: Config) -> None:
    """Serve until told to stop; answers under way are finished first, plans are given up, within `grace` seconds.

    Everything is opened once before the first worker starts, so that a mistake is one clear error here and not
    one in every worker. SIGHUP has the configuration read anew: workers are replaced one after the other, and one
    worker ends as if told to stop and begins again, while whoever connects meanwhile waits.
    """
    logging.config.dictConfig(LOGGING)  # what is said while budgets are opened is a line like all others
    Service(config).close()
    os.environ[CONFIG_VARIABLE] = str(config.path)
    if config.workers > 1:
        with tempfile.TemporaryDirectory(prefix="sottovoce-metrics-") as folder:
            os.environ[FOLDER_VARIABLE] = folder
            uvicorn.run(**_settings(config))
    elif not hasattr(signal, "SIGHUP"):
        uvicorn.run(**_settings(config))
    else:
        _serve_alone(config)


def _settings(config: Config) -> dict[str, Any]:
    return {
        "app": "sottovoce.faces.server.app:worker_app",
        "factory": True,
        "host": config.host,
        "port": config.port,
        "workers": config.workers,
        "log_config": LOGGING,
        "access_log": False,
        "server_header": False,
        "date_header": True,
        "proxy_headers": bool(config.trusted_proxies),
        "forwarded_allow_ips": ",".join(config.trusted_proxies),
        "ssl_certfile": None if config.tls is None else str(config.tls.certificate),
        "ssl_keyfile": None if config.tls is None else str(config.tls.key),
        "timeout_keep_alive": 15,
        "timeout_worker_healthcheck": 30,  # a worker that is still starting on a busy machine is not a dead one
        "timeout_graceful_shutdown": max(1, int(0.9 * config.grace)),  # leaves the rest of the grace to close all
        "h11_max_incomplete_event_size": 16_384,
        "ws": "none",
    }


class _Server(uvicorn.Server):
    """A server that SIGHUP ends as SIGTERM does, once the configuration to begin again with has proved good."""

    def __init__(self, config: Config) -> None:
        super().__init__(uvicorn.Config(**_settings(config) | {"workers": 1}))
        self._path, self._hung_up = config.path, False
        self.successor: Config | None = None

    def hang_up(self, *_: object) -> None:
        """Note the signal; what it asks for takes too long for a handler."""
        self._hung_up = True

    async def on_tick(self, counter: int) -> bool:
        """Return whether it is time to end."""
        if self._hung_up:
            self._hung_up = False
            self.successor = await asyncio.to_thread(_checked, self._path)
        return await super().on_tick(counter) or self.successor is not None


def _checked(path: Path) -> Config | None:
    """Return the configuration as it reads now; None where no server can begin with it."""
    try:
        config = read_config(path)
        Service(config).close()
    except (SottovoceError, OSError) as error:
        _log.error("SIGHUP: the server goes on with the configuration it has: %s", error)
        return None
    return config


def _serve_alone(config: Config | None) -> None:
    """Serve in this process; at SIGHUP, end and begin again with the configuration as it reads then."""
    assert config is not None
    heard = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN  # as nohup has it
    with uvicorn.Config(**_settings(config)).bind_socket() as listening, contextlib.suppress(KeyboardInterrupt):
        while config is not None:
            server = _Server(config)
            if heard:
                signal.signal(signal.SIGHUP, server.hang_up)
            server.run([listening.dup()])  # which it closes
            if not server.started:
                sys.exit(STARTUP_FAILURE)
            config = server.successor
