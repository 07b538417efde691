"""``discreet service``: making, backing up, restoring and checking the store of a service, and its keys."""

from __future__ import annotations

import argparse
import datetime
from typing import Any

from ..core.text import table
from .common import add, as_json, given, service_settings

NAME = "service"
HELP = "make, back up, restore or check the store of a live service; its API keys"

_EXAMPLES = """examples:
  discreet service init
  discreet service backup monday.db
  discreet service restore monday.db --store sqlite:///shop.db
  discreet service verify
  discreet service verify monday.db    # a backup, while the service runs
  discreet service key make "shop front" --role app --experiments shop --days 365
  discreet service key list
  discreet service key rotate 0c1d2e3f4a5b --grace 3600
  discreet service key revoke 0c1d2e3f4a5b

A restored service is frozen until its budget renews: what was released after the backup is not in its
account, and going on from there would release about the same people again. Keys can be made and ended while
the service runs, which hears of it within seconds; one that is made is printed once."""
_DOINGS = ("init", "backup", "restore", "verify", "key")
_ROLES = ("app", "analyst", "operator", "admin")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("do", choices=_DOINGS, help="what to do")
    parser.add_argument(
        "what",
        nargs="*",
        metavar="FILE",
        help="the backup to write, to restore or to verify; for key: make NAME, list, revoke ID or rotate ID",
    )
    add(parser, "--config", "--store", "--secrets")
    keys = parser.add_argument_group("keys")
    keys.add_argument("--role", choices=_ROLES, help="what a new key may do (default: app)")
    keys.add_argument(
        "--experiments", metavar="NAMES", help="those that it is for, with commas (default: all)"
    )
    keys.add_argument("--days", type=int, help="after which it ends, from 1 to 3650 (default: never)")
    keys.add_argument(
        "--grace", type=float, help="seconds for which a rotated key is still taken (default: 0)"
    )


def run(options: argparse.Namespace) -> int:
    server, settings = service_settings(options, "store", "secrets")
    from ..service import backup
    from ..service.database import StoreError

    if options.do != "key":
        if len(options.what) > 1:
            raise ValueError(f"{options.do} takes one file")
        if told := given(options, ("role", "experiments", "days", "grace")):
            raise ValueError(f"{told[0]} is for keys: discreet service key")
    options.file = options.what[0] if options.what else None
    if options.do in ("backup", "restore") and options.file is None:
        raise ValueError(f"{options.do} takes a file")
    if options.do == "init" and options.file is not None:
        raise ValueError("init takes no file; --store says where it is made")
    try:
        if options.do == "key":
            return _keys(options, settings.store)
        if options.do == "init":
            key = server.prepare(settings)
            text = "there was one already" if key is None else f"the first admin key is in {key}"
            told_of = {"store": settings.store, "admin_key_file": None if key is None else str(key)}
            print(as_json(told_of) if options.json else text)
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


def _keys(options: argparse.Namespace, url: str) -> int:
    """Make, list, end or replace keys, also next to a running service."""
    from ..service.auth import Keys, LastAdmin
    from ..service.database import open_store
    from ..service.worker import audit

    do, *names = options.what or ["list"]
    takes = {"make": "NAME", "list": None, "revoke": "ID", "rotate": "ID"}
    if do not in takes:
        raise ValueError(f"key takes {', '.join(takes)}, not {do!r}")
    if len(names) != (takes[do] is not None):
        raise ValueError(f"key {do} takes {'nothing more' if takes[do] is None else f'one {takes[do]}'}")
    fit = {"make": ("role", "experiments", "days"), "rotate": ("grace",)}.get(do, ())
    if told := given(options, [one for one in ("role", "experiments", "days", "grace") if one not in fit]):
        raise ValueError(f"{told[0]} is not for key {do}")
    if options.days is not None and not 1 <= options.days <= 3650:
        raise ValueError(f"--days {options.days} must be from 1 to 3650")
    if options.grace is not None and not 0 <= options.grace <= 604800:
        raise ValueError(f"--grace {options.grace:g} must be from 0 to 604800 seconds")
    store = open_store(url, beside=True)
    try:
        store.migrate()
        keys = Keys(store)
        if do == "list":
            found = keys.listed()
            print(as_json({"keys": found}) if options.json else _listed(found))
            return 0
        if do == "make":
            if not 1 <= len(names[0]) <= 100 or not names[0].isprintable():
                raise ValueError("a key's name has 1 to 100 characters that can be shown")
            listed = options.experiments
            scope = None if listed is None else [one.strip() for one in listed.split(",")]
            if scope is not None and not all(scope):
                raise ValueError("--experiments has an empty name; leave it out for a key to all of them")
            made = keys.create(names[0], options.role or "app", scope, days=options.days)
        elif do == "rotate":
            made = keys.rotate(names[0], options.grace or 0.0)
        else:
            keys.revoke(names[0])
            made = None
        with store.transaction() as tx:
            audit(tx, f"key {do}, on the machine")
    except LookupError:
        raise ValueError(f"there is no key {names[0]!r}, or it has ended; key list shows their ids") from None
    except LastAdmin:
        raise ValueError(f"{names[0]} is the last admin key: make another one first, or rotate it") from None
    finally:
        store.close()
    if made is None:
        print(as_json({"revoked": names[0]}) if options.json else f"revoked {names[0]}")
    else:
        text = f"key {made[0]}, shown this once: {made[1]}"
        print(as_json({"id": made[0], "key": made[1]}) if options.json else text)
    return 0


def _listed(keys: list[dict[str, Any]]) -> str:
    """Keys as a table."""

    def when(at: float | None) -> str:
        return (
            "never" if at is None else f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y-%m-%d %H:%M}"
        )

    rows = [
        [
            one["id"],
            one["name"],
            one["role"],
            "all" if one["experiments"] is None else ", ".join(one["experiments"]),
            *(when(one[at]) for at in ("created", "expires", "last_used")),
        ]
        for one in keys
    ]
    return table(["id", "name", "role", "experiments", "made (UTC)", "ends", "last used"], rows)
