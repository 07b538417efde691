"""``discreet service``: making, backing up, restoring and checking the store of a live service."""

from __future__ import annotations

import argparse

from .common import add, as_json, service_settings

NAME = "service"
HELP = "make, back up, restore or check the store of a live service"

_EXAMPLES = """examples:
  discreet service init
  discreet service backup monday.db
  discreet service restore monday.db --store sqlite:///shop.db
  discreet service verify
  discreet service verify monday.db    # a backup, while the service runs

A restored service is frozen until its budget renews: what was released after the backup is not in its
account, and going on from there would release about the same people again."""
_DOINGS = ("init", "backup", "restore", "verify")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("do", choices=_DOINGS, help="what to do")
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="the backup to write, to restore or to verify"
    )
    add(parser, "--config", "--store", "--secrets")


def run(options: argparse.Namespace) -> int:
    server, settings = service_settings(options, "store", "secrets")
    from ..service import backup
    from ..service.database import StoreError

    if options.do in ("backup", "restore") and options.file is None:
        raise ValueError(f"{options.do} takes a file")
    if options.do == "init" and options.file is not None:
        raise ValueError("init takes no file; --store says where it is made")
    try:
        if options.do == "init":
            key = server.prepare(settings)
            text = "there was one already" if key is None else f"admin key, shown this once: {key}"
            print(as_json({"store": settings.store, "admin_key": key}) if options.json else text)
        elif options.do == "backup":
            backup.backup(settings.store, options.file)
            print(as_json({"written": options.file}) if options.json else f"written to {options.file}")
        elif options.do == "restore":
            frozen = backup.restore(settings.store, options.file)
            text = f"restored; frozen until their budgets renew: {', '.join(frozen) or 'nothing'}"
            print(as_json({"frozen": frozen}) if options.json else text)
        else:
            wrong, seen = backup.verify_url(f"sqlite:///{options.file}" if options.file else settings.store)
            sizes = ", ".join(f"{many} {one}{'s' * (many != 1)}" for one, many in seen.items())
            text = "\n".join(wrong) or f"{sizes}: nothing is wrong"
            print(as_json({"wrong": wrong, "checked": seen}) if options.json else text)
            return 2 if wrong else 0
    except StoreError as error:  # such as a file that a service has open
        raise ValueError(str(error)) from error
    return 0
