"""A service that runs: made for the first time, started, stopped."""

from __future__ import annotations

import contextlib
import gc
import sys
from pathlib import Path
from typing import Any

from ..core.extras import install
from .engine import Engine
from .keys import Secrets
from .metrics import Metrics
from .settings import Settings
from .store import open_store
from .web.app import App
from .web.auth import Keys

# Seconds after which a thread that computes lets others go on: visitors wait for the keeper that long.
_TURN = 0.001


def prepare(settings: Settings) -> str | None:
    """Tables and secrets, made where there are none; the first admin key, which is shown this once."""
    secrets = Path(settings.secrets)
    if not secrets.exists():
        with contextlib.suppress(FileExistsError):  # another process starts at the same time
            Secrets.fresh(secrets)
    store = open_store(settings.store)
    try:
        store.migrate()
        keys = Keys(store)
        return None if keys.listed() else keys.create("first", "admin")[1]
    finally:
        store.close()


def application(settings: Settings) -> Any:
    """The application of these settings, for ASGI."""
    engine = Engine(open_store(settings.store), Secrets.read(settings.secrets))
    metrics = None
    if settings.operator_port is not None:
        metrics = Metrics(engine.keeper)
        metrics.serve(settings.operator_host, settings.operator_port)
    app = App(engine, rate=settings.rate, metrics=metrics)
    if settings.telemetry is None:
        return app
    try:
        from .web.telemetry import traced
    except ImportError as error:
        raise ValueError(f"telemetry needs more: {install('telemetry')} ({error.name})") from None
    return traced(app, settings.telemetry)


def run(settings: Settings) -> None:
    """Serve until it is told to stop."""
    import uvicorn

    from .web.lane import Lane, Plain

    sys.setswitchinterval(_TURN)
    app = application(settings)
    gc.collect()
    gc.freeze()  # modules are not looked through again while visitors wait
    config = uvicorn.Config(
        app,
        http=Lane if isinstance(app, App) else Plain,  # spans are of the usual way
        host=settings.host,
        port=settings.port,
        log_level=settings.log_level,
        forwarded_allow_ips=settings.proxies,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=10,
    )
    uvicorn.Server(config).run()
