"""Running the server: Uvicorn with our limits, one or several worker processes, TLS, a graceful end."""

from __future__ import annotations

import os

import uvicorn

from sottovoce.server.app import CONFIG_VARIABLE
from sottovoce.server.config import Config
from sottovoce.server.logs import LOGGING
from sottovoce.server.service import Service

__all__ = ["serve"]


def serve(config: Config) -> None:
    """Serve until told to stop; answers under way are finished first, plans are given up, within `grace` seconds.

    Everything is opened once before the first worker starts, so that a mistake is one clear error here and not
    one in every worker.
    """
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
