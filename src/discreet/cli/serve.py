"""``discreet serve``: the live service, on one file, with no configuration."""

from __future__ import annotations

import argparse
import sys

from .common import add, as_json, service_settings

NAME = "serve"
HELP = "start the live service: decisions over HTTP"

_EXAMPLES = """examples:
  discreet serve
  discreet serve --store sqlite:///shop.db --port 8080
  discreet serve --config discreet.toml

The first start makes the database, a file of secrets and an admin key. The key is in no output and no log: it
is written to discreet.admin-key beside the secrets, or taken from there, or from DISCREET_ADMIN_KEY. Settings
come from the options, then from environment variables (DISCREET_STORE and so on), then from the file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The address to listen on, and the store."""
    parser.epilog = _EXAMPLES
    add(parser, "--config", "--store", "--secrets")
    parser.add_argument("--host", help="the address to listen at (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="the port to listen at (default: 8722)")


def run(options: argparse.Namespace) -> int:
    server, settings = service_settings(options, "store", "secrets", "host", "port")
    from ..service.database import StoreError
    from ..service.metrics import log_to_stderr

    try:
        key = server.prepare(settings)
    except StoreError as error:  # such as a file that another service has open
        raise ValueError(str(error)) from error

    def ready() -> None:
        url = f"http://{settings.host}:{settings.port}"
        if options.json:
            print(as_json({"url": url, "admin_key_file": None if key is None else str(key)}))
        else:
            print(f"discreet serves at {url}")
            if key is not None:
                print(f"the first admin key is in {key}, which only you can read")
        sys.stdout.flush()

    log_to_stderr(settings.log_level)
    server.run(settings, ready)
    return 0
