"""``discreet report``: an account of what was spent, as text or as a document."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from .common import add, as_json, check_writable, service_settings, write_whole

if TYPE_CHECKING:
    from ..privacy import Account, Periods

NAME = "report"
HELP = "show an account, or write it as a document for a privacy officer"

_EXAMPLES = """examples:
  discreet report people.ledger                      # every release, as text
  discreet report people.ledger --out account.html   # a document with lines to sign; print it to PDF
  discreet report account.json --out account.html    # of json.dumps(learner.privacy.to_json())
  discreet report learner.discreet                   # of learner.save("learner.discreet"); or a saved model
  discreet report --population visitors --store sqlite:///shop.db --out account.html

discreet ledger show people.ledger is discreet report people.ledger. The document of a service that runs is on
its page of the population."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("file", nargs="?", metavar="FILE", help="a ledger, a saved learner, or JSON")
    parser.add_argument("--population", metavar="NAME", help="of the store of a service, instead of a file")
    parser.add_argument("--out", metavar="FILE.html", help="write the document there")
    parser.add_argument("--title", help="of the document (default: Privacy account)")
    parser.add_argument(
        "--retention", action="append", metavar="TEXT", help="how long data is kept; repeatable"
    )
    add(parser, "--config", "--store")


def run(options: argparse.Namespace) -> int:
    if (options.file is None) == (options.population is None):
        raise ValueError("report takes a FILE, or --population NAME; give one of them")
    if options.out is not None and Path(options.out).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--out {options.out}: the document is HTML; call it .html, and print that to PDF")
    store = "" if options.population is None else str(service_settings(options, "store")[1].store)
    read = [options.file, options.config, store.removeprefix("sqlite:///") or None]
    out = None if options.out is None else check_writable(options.out, *read)
    about = {"title": options.title, "retention": options.retention}
    given = {name: one for name, one in about.items() if one is not None}
    if options.population is not None:
        if given:
            raise ValueError(f"--{next(iter(given))} is for a FILE: a service knows what to say")
        text, page, record = _population(store, options.population)
    else:
        account = _read(Path(options.file))
        text, page, record = str(account), account.to_html(**given), account.to_json()
    if out is None:
        print(as_json(record) if options.json else text)
        return 0
    write_whole(out, page)
    print(as_json({"written": options.out}) if options.json else f"written to {options.out}")
    return 0


def _population(url: str, population: str) -> tuple[str, str, object]:
    from ..service import queries
    from ..service.database import StoreError, open_store

    if not url.startswith("postgres") and not Path(url.removeprefix("sqlite:///")).exists():
        raise ValueError(f"--store {url}: there is none")
    try:
        with closing(open_store(url)) as store:
            found = queries.account(store, population)
            return found["text"], queries.document(store, population), found
    except StoreError as error:  # for instance, a service has the file open
        raise ValueError(str(error)) from error
    except LookupError:
        raise ValueError(f"--population {population}: the store has no such population") from None


def _read(path: Path) -> Account | Periods:
    """The account of a ledger or a saved learner, or the one in a JSON file."""
    from ..core.state import state_class
    from ..online.learner import load
    from ..privacy import Account, Budget, Gate, Periods, SQLiteLedger

    if state_class(path) not in (None, "None"):
        account: Account = load(path).privacy
        return account
    begin = path.read_bytes()[:1]
    if begin == b"{":
        record = json.loads(path.read_text(encoding="utf-8"))
        try:
            return Account.from_json(record.get("account", record))
        except (KeyError, TypeError, AttributeError):
            raise ValueError(f"{path}: this is not an account; write account.to_json() there") from None
    ledger = SQLiteLedger(path) if begin else None  # which would begin one in an empty file
    terms = None if ledger is None else ledger.terms
    if terms is None:
        raise ValueError(f"{path}: nothing has been charged to this ledger")
    budget = Budget(
        float(terms["epsilon"]),
        float(terms["delta"]),
        terms["neighbours"],
        terms["max_rounds_per_person"],
    )
    failure = Fraction(terms["failure"])
    if terms.get("per") == "period":
        return Periods(budget, ledger, definition=terms["definition"], failure=failure)
    return Gate(budget, definition=terms["definition"], failure=failure, ledger=ledger).spent
