"""The application: the service behind the API and behind the page."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import FastAPI
from starlette.middleware.errors import ServerErrorMiddleware

from sottovoce import __version__
from sottovoce.faces.server import api, sharing_api
from sottovoce.faces.server import budget_meaning_api as meaning_api
from sottovoce.faces.server.config import Config, is_loopback, read_config
from sottovoce.faces.server.graceful_shutdown import stopping_within
from sottovoce.faces.server.http_errors import install_problems
from sottovoce.faces.server.pacing import Bucket
from sottovoce.faces.server.page import install_page
from sottovoce.faces.server.planning_processes import prepare
from sottovoce.faces.server.request_guard import RequestGuard
from sottovoce.faces.server.service import Service

CONFIG_VARIABLE = "SOTTOVOCE_SERVER_CONFIG"
"""Where a worker process finds the path of its configuration."""

_TURN = 0.0005
"""Seconds for which a thread may keep the others waiting: they hand each other short work, all day long."""
_LITTER = 10_000
"""How many new things there may be before they are looked through for what refers to itself: answers leave little."""
_ABOUT = """Ask questions of sensitive data. Each answer is a draw from a posterior, charged to your budget and to
the data set's before any record is read. Tokens go into the header `Authorization: Bearer …`."""


def create_app(config: Config) -> FastAPI:
    """Return the application; its service opens now and closes when the application ends."""
    service = Service(config)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(service.readiness.watch())
        with stopping_within(config.grace, service.stop):
            try:
                yield
            finally:
                watching.cancel()
                service.stop()
                await service.drain()
                service.close()

    # No interactive documentation: it would load its scripts from elsewhere.
    app = _App(
        title=config.title,
        version=__version__,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # it would send callers to whatever host they name
        lifespan=lifespan,
    )
    app.state.service = service
    # As they are: what FastAPI includes, it makes anew for every application, at the first request.
    app.router.routes.extend([*api.router.routes, *meaning_api.router.routes, *sharing_api.router.routes])
    install_problems(app)
    app.state.turns = Bucket(config.limits.requests_per_minute)
    app.state.failures = Bucket(config.limits.failures_per_minute)
    install_page(app, service)
    app.doors = lambda inner: RequestGuard(
        inner,
        limits=config.limits,
        metrics=service.metrics,
        failures=app.state.failures,
        behind_proxy=config.tls is None and not is_loopback(config.host),
        prefix=config.path_prefix,
        tracing=service.tracing,
    )
    return app


class _App(FastAPI):
    """FastAPI behind doors of our own: what they answer themselves passes through nothing else."""

    doors: Callable[[Any], Any]

    def build_middleware_stack(self) -> Any:
        """Return the doors, and all of FastAPI behind them but what answers faults: the guard does."""
        stack: object = super().build_middleware_stack()
        return self.doors(stack.app if isinstance(stack, ServerErrorMiddleware) else stack)


def worker_app() -> FastAPI:
    """Return the application of a worker process, configured by the file that the environment names."""
    sys.setswitchinterval(_TURN)
    prepare()
    app = create_app(read_config(os.environ[CONFIG_VARIABLE]))
    # What is there by now stays for good. To look through all of it for litter would hold up everyone who waits.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_LITTER)
    return app
