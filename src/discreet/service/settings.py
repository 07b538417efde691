"""Settings of a service: a TOML file, or none at all."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import msgspec


class Settings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Where a service listens and keeps what it knows; every setting has a default.

    ``store``: ``sqlite:///FILE``, or ``postgresql://...`` for several processes. ``secrets``: the file of
    keys for marks of people and decision ids; keep it apart from backups of the store. ``rate``: requests a
    second of one API key; none is no limit. ``operator_port``: where metrics are, for operators only.
    ``proxies``: addresses of proxies whose word counts for where a request came from. ``telemetry``: where an
    OpenTelemetry collector takes spans (OTLP over HTTP); none sends none.
    """

    store: str = "sqlite:///discreet.db"
    secrets: str = "discreet.secrets"
    host: str = "127.0.0.1"
    port: int = 8722
    proxies: str = "127.0.0.1"
    operator_host: str = "127.0.0.1"
    operator_port: int | None = None
    rate: float | None = None
    telemetry: str | None = None
    log_level: str = "warning"


def read_settings(path: str | os.PathLike[str] | None = None) -> Settings:
    """The settings of a file, with environment variables such as DISCREET_STORE on top."""
    found = {} if path is None else tomllib.loads(Path(path).read_text())
    for name in Settings.__struct_fields__:
        if (given := os.environ.get(f"DISCREET_{name.upper()}")) is not None:
            found[name] = given
    try:
        return msgspec.convert(found, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"{path or 'the environment'}: {error}") from None
