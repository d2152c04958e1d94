"""Running the server: Uvicorn with our limits, one or several worker processes, TLS, a graceful end."""

from __future__ import annotations

import logging.config
import os
import socket

import uvicorn

from sottovoce.privacy.errors import InvalidValue
from sottovoce.server.app import CONFIG_VARIABLE
from sottovoce.server.config import Config
from sottovoce.server.logs import LOGGING
from sottovoce.server.service import Service

__all__ = ["check_address", "serve"]


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
    one in every worker.
    """
    logging.config.dictConfig(LOGGING)  # what is said while budgets are opened is a line like all others
    Service(config).close()
    os.environ[CONFIG_VARIABLE] = str(config.path)
    uvicorn.run(
        "sottovoce.server.app:worker_app",
        factory=True,
        host=config.host,
        port=config.port,
        workers=config.workers,
        log_config=LOGGING,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=bool(config.trusted_proxies),
        forwarded_allow_ips=",".join(config.trusted_proxies),
        ssl_certfile=None if config.tls is None else str(config.tls.certificate),
        ssl_keyfile=None if config.tls is None else str(config.tls.key),
        timeout_keep_alive=15,
        timeout_worker_healthcheck=30,  # a worker that is still starting on a busy machine is not a dead one
        timeout_graceful_shutdown=max(1, int(0.9 * config.grace)),  # leaves the rest of the grace to close everything
        h11_max_incomplete_event_size=16_384,
        ws="none",
    )
