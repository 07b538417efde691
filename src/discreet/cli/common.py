"""Common parts of commands: a table of options, files of events and lists of items, warnings, and output.

Output is text that fits the terminal, JSON, and files that are written completely or not at all.
"""

from __future__ import annotations

import argparse
import csv
import glob
import json
import math
import os
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ..core.options import Adjacency
from ..core.text import at_most, install, table

if TYPE_CHECKING:
    from ..data.read import Source
    from ..privacy import Budget, Gate

KINDS = (
    "CSV or other text in columns, plain or compressed (.gz, .zst, .bz2, .xz), Parquet or Feather; a pattern"
    " in quotes and a folder stand for the files in them"
)
_ITEMS = (
    "a file with the --item column (a single column may be called anything, and its first line is its name,"
    " unless --items-columns gives one)"
)
# Options by name, with their arguments for argparse; commands may override these.
_FLAG = {"action": "store_true"}
_OPTIONS: dict[str, dict[str, Any]] = {
    "--person": {"metavar": "COL", "help": "column that says whose row it is"},
    "--item": {"metavar": "COL", "help": "column of what they like, bought or opened"},
    "--items": {"metavar": "FILE", "help": f"the public list of items: {_ITEMS}"},
    "--items-item": {
        "metavar": "COL",
        "help": "the --item column of --items, if it is called otherwise there",
    },
    "--items-columns": {
        "metavar": "NAMES",
        "help": "for --items without a header: names of its columns, separated by commas",
    },
    "--columns": {
        "metavar": "NAMES",
        "help": "for text without a header: names of its columns, separated by commas",
    },
    "--separator": {
        "metavar": "CHAR",
        "help": "between columns of text; tab for a tab (default: whichever of comma, tab, semicolon and bar"
        " makes the header name the columns that are asked for; with --columns, a tab in .tsv and .tab files"
        " and a comma in others)",
    },
    "--encoding": {
        "metavar": "NAME",
        "help": "of text, such as cp1252 for what Excel on Windows saves as plain CSV (default: utf-8)",
    },
    "--items-from-data": _FLAG
    | {
        "help": "instead of --items: all items that occur. NOT PRIVATE BY ITSELF: an item that only one"
        " person has is among them, and what is chosen is marked as conditional on the list",
    },
    "--skip-bad": _FLAG
    | {
        "help": "leave out rows with an empty cell, text not of the --encoding, a weight that is not a"
        " number or an item that --items does not list, instead of refusing the file; a weight out of range"
        " counts as the nearest within",
    },
    "--insecure-diagnostics": _FLAG | {"help": "say which row of a file was refused: NOT PRIVATE"},
    "--weight": {
        "metavar": "COL",
        "help": "a number for each row, at least 0; of repeated rows the largest counts",
    },
    "--cap": {"type": int, "metavar": "M", "help": "count at most M items of each person"},
    "--n-items": {"type": int, "metavar": "N", "help": "how many items there are"},
    "--rounds": {"type": int, "metavar": "T", "help": "how many people will come"},
    "--k": {"type": int, "help": "how many items are chosen in each round"},
    "--feedback": {
        "metavar": "KIND",
        "help": "what is learned after a round: full (the person's whole taste, default), bandit (the value"
        " of the shown set, such as 1 for a click) or slots (which of the shown items was clicked)",
    },
    "--epsilon": {"type": float, "help": "privacy budget"},
    "--delta": {"type": float, "default": 0.0, "help": "probability outside of that (default 0)"},
    "--neighbours": {
        "choices": get_args(Adjacency),
        "default": "replace",
        "help": "what is protected: a person's rows for anybody else's (replace, the number of people is"
        " public; default), or their presence as well (add_remove)",
    },
    "--ledger": {
        "metavar": "FILE",
        "help": "charge this run to FILE: all runs with it, about the same people, share one budget, and one"
        " beyond it is refused. A charge stays, whatever happens to the run",
    },
    "--ledger-epsilon": {
        "type": float,
        "metavar": "E",
        "help": "for a new ledger: the epsilon of all runs together",
    },
    "--ledger-delta": {"type": float, "metavar": "D", "help": "the same for delta (default 0)"},
    "--seed": {"type": int, "metavar": "N", "help": "repeatable randomness: NOT PRIVATE, for trying out"},
    "--config": {"metavar": "FILE", "help": "a TOML file with settings"},
    "--store": {
        "metavar": "URL",
        "help": "sqlite:///FILE or postgresql://... (default: sqlite:///discreet.db)",
    },
    "--secrets": {
        "metavar": "FILE",
        "help": "the file of keys; keep it apart from backups (default: discreet.secrets)",
    },
}
TEXT = ("--separator", "--encoding", "--items-columns")
EVENTS = ("--person", "--item", "--items", "--items-item", "--columns", *TEXT)
LEDGER = ("--ledger", "--ledger-epsilon", "--ledger-delta")
PRIVATE_EVENTS = ("--items-from-data", "--skip-bad")


def skipping(options: argparse.Namespace, highest: float = 1.0) -> list[str]:
    """A description of --skip-bad: a rule that judges each row alone, without counts."""
    if not options.skip_bad:
        return []
    weighed = getattr(options, "weight", None) is not None
    weight = " or whose weight is not a number" if weighed else ""
    left_out = [
        f"Rows with a missing cell or of another width{weight}, and those of an item that is not listed, were"
        " left out, each for what is in it alone; its person is still counted, unless it is of another width,"
        " which names no one. How many there were is private, and not said.",
        f"Rows with text that is not {options.encoding or 'UTF-8'} were left out as well. In a file in"
        " another encoding that is every row with an accent: say which it is, e.g."
        f" --encoding {'cp1252' if options.encoding is None else 'utf-8'}.",
    ]
    if weighed:
        within = f"outside [0, {highest:g}]" if math.isfinite(highest) else "below 0"
        left_out.append(f"Weights {within} counted as the nearest number within.")
    return left_out


def add(group: argparse._ActionsContainer, *names: str, **changed: Any) -> None:
    """Add options of the table, with changes for this command."""
    for name in names:
        group.add_argument(name, **_OPTIONS[name] | changed)


def add_files(parser: argparse.ArgumentParser, more: str = "") -> None:
    about = f"{KINDS}; - for text on standard input{more}"
    parser.add_argument("files", nargs="+", metavar="FILE", help=about)


def given(options: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """The options among ``names`` that were given, as they are written."""
    values = {name: getattr(options, name) for name in names}
    told = [
        name for name, value in values.items() if value is not None and value is not False and value != []
    ]
    return [f"--{name.replace('_', '-')}" for name in told]


def service_settings(options: argparse.Namespace, *names: str) -> tuple[Any, Any]:
    """The module of the service, and its settings: from a file, overridden by options."""
    try:
        from ..service import web
        from ..service.config import checked, read_settings
    except ImportError as error:
        raise ValueError(f"the service needs more: {install('service')} ({error.name})") from None
    settings = read_settings(options.config)
    for name in names:
        if (value := getattr(options, name)) is not None:
            setattr(settings, name, value)
    return web, checked(settings)


def warn_of_budget(budget: Budget, count: int, max_people: int | None) -> None:
    """Warn of a delta so large that it allows one person's data to be revealed.

    ``max_people`` as declared. The number of people is public unless their presence is private; a declared
    bound then takes its place.
    """
    replaced = budget.neighbours == "replace"
    known = count if replaced else max_people
    if not known or budget.delta * known < 1.0:
        return
    small = 10.0 ** -(len(str(known)) + 2)
    warnings.warn(
        f"delta {budget.delta:g} is large for {'' if replaced else 'up to '}{known:,} people: to publish"
        " everything about one of them, drawn at random, would keep to it. Choose one far below"
        f" 1/{known:,}, e.g. {small:.0e}",
        stacklevel=2,
    )


# --- the ledger -------------------------------------------------------------------------------------


def ledger_gate(options: argparse.Namespace, budget: Budget, command: str) -> Gate:
    """The gate of this run; with --ledger it charges its full budget there before it releases anything."""
    from ..privacy import Budget, BudgetExceeded, Gate, SQLiteLedger
    from ..privacy.population import RunGate

    if options.ledger is None:
        if given(options, ("ledger_epsilon", "ledger_delta")):
            raise ValueError("--ledger-epsilon and --ledger-delta are about --ledger FILE, which is missing")
        return Gate(budget, options.seed)
    if options.seed is not None:
        raise ValueError("--seed is for trying out, --ledger for what is published; leave out one of them")
    path = Path(options.ledger)
    known = SQLiteLedger(path).terms if path.exists() else None
    if known is None and options.ledger_epsilon is None:
        raise ValueError(
            f"--ledger {path}: there is none yet; to begin it, say what all runs with it may spend together,"
            f" e.g. --ledger-epsilon {3 * budget.epsilon:g}"
            + (f" --ledger-delta {3 * budget.delta:g}" if budget.delta else "")
        )
    if known is not None:
        _check_alike(options, known)
    known = known or {"definition": "pure", "failure": "0", "delta": 0.0, "max_rounds_per_person": 1}
    epsilon = known["epsilon"] if options.ledger_epsilon is None else options.ledger_epsilon
    delta = known["delta"] if options.ledger_delta is None else options.ledger_delta
    total = Budget(float(epsilon), float(delta), budget.neighbours, known["max_rounds_per_person"])
    if budget.delta and not total.delta:
        raise ValueError(
            f"--delta {budget.delta:g}: the ledger holds none; begin one with --ledger-delta"
            + ("" if command == "recommend" else ", or leave --delta out")
        )
    how: dict[str, Any] = {"definition": known["definition"], "failure": Fraction(known["failure"])}
    shared = Gate(total, **how)
    label = f"discreet {command} {', '.join(Path(one).name for one in options.files)}"
    try:
        RunGate(budget, shared, "")  # a run that is refused must not create a ledger
        shared = Gate(total, ledger=SQLiteLedger(path), **how)
        return RunGate(budget, shared, label)
    except BudgetExceeded as error:
        error.args = (_refusal(path, budget, shared),)
        raise


def _check_alike(options: argparse.Namespace, known: dict[str, Any]) -> None:
    """Refuse options that differ from those with which the ledger was created."""
    for name in ("epsilon", "delta"):
        asked, begun = getattr(options, f"ledger_{name}"), float(known[name])
        if asked is not None and asked != begun:
            raise ValueError(
                f"--ledger-{name} {asked:g}: the ledger was begun with {begun:g}, which stays; leave"
                f" --ledger-{name} out, or begin another ledger"
            )
    if options.neighbours != known["neighbours"]:
        raise ValueError(
            f"--neighbours {options.neighbours}: the ledger was begun with {known['neighbours']}; say"
            f" --neighbours {known['neighbours']}, or begin another ledger"
        )


def _refusal(path: Path, budget: Budget, shared: Gate) -> str:
    """The message for a refusal by the ledger: what does not fit, why, and the largest that would."""
    from ..privacy import ApproximateRelease, PureRelease

    asked = f"--epsilon {budget.epsilon:g}" + (f" --delta {budget.delta:g}" if budget.delta else "")
    account = shared.spent
    spent = f"epsilon {at_most(account.epsilon())} of {at_most(account.budget.epsilon)}"
    if account.budget.delta:
        spent += f" and delta {at_most(float(account.loss.delta))} of {at_most(account.budget.delta)}"
    more = "nothing fits any more"
    for delta in dict.fromkeys((budget.delta, 0.0)):
        event = ApproximateRelease(budget.epsilon, delta) if delta else PureRelease(budget.epsilon)
        without = " without --delta" if budget.delta and not delta else ""
        largest = shared.preview(event).largest
        if largest is not None:
            found = largest.to_json()
            fits = [f"--{name} {_down(found[name])}" for name in ("epsilon", "delta") if name in found]
            more = f"{' '.join(fits)}{without} would still fit"
            break
    return f"{asked} does not fit into the ledger {path.name}: {spent} is spent; {more}"


def _down(exact: str) -> str:
    """A number in six digits, rounded down."""
    return f"{Context(prec=6, rounding=ROUND_FLOOR).plus(Decimal(float(Fraction(exact)))):g}"


# --- files ------------------------------------------------------------------------------------------


def source_of(options: argparse.Namespace, table: Any, *, public: bool = False) -> Source:
    """A file, several of them, or standard input (-); ``public``: a list of items, not people's data."""
    from ..data.read import Source, Wording

    names = "--items-columns" if public else "--columns"
    renamed = public and getattr(options, "items_item", "") is None
    unnamed = public and options.item is None
    wording = Wording(
        argument="--{role} ({column} unless you say which column)" if unnamed else "--{role} {column}",
        items="--items",
        columns=names,
        drop_items="",
        separator="; if its columns are separated by {mark}, say --separator {mark}",
        headless=f"; if its first line is a row and no header, name its columns with {names}",
        encoding="; if the file is in another encoding, say which, e.g. --encoding {other}",
        renamed="; if it is called otherwise there, say so with --items-item" if renamed else "",
        leave_out="; fix the row, or leave such rows out with --skip-bad",
        details=" (--insecure-diagnostics names {what})",
        others=_asking(options) if public else {},
    )
    skip_bad = not public and options.skip_bad
    columns = _names(names, options.items_columns if public else options.columns)
    how: dict[str, Any] = {"separator": _separator(options.separator)}
    if options.encoding is not None:
        how["encoding"] = _encoding(options)
    return Source(
        table, skip_bad=skip_bad, public=public, stdin=table == "-", wording=wording, columns=columns, **how
    )


def events_of(options: argparse.Namespace) -> Source:
    """The files given to a command, one or several, or standard input alone."""
    if "-" in options.files and len(options.files) > 1:
        raise ValueError("standard input (-) stands alone; name files, or pipe them in")
    return source_of(options, options.files[0] if len(options.files) == 1 else list(options.files))


def _asking(options: argparse.Namespace) -> dict[str, str]:
    """The option behind each column about items other than constraints; "" is the column of names."""
    vectors = (getattr(options, "vectors", None) or "").split(",")
    asked = {name.strip(): "vectors" for name in vectors if name.strip()}
    itself = {} if getattr(options, "items_item", None) is None else {"": "items-item"}
    return asked | dict.fromkeys(getattr(options, "show", ()), "show") | itself


def read_items(
    options: argparse.Namespace, columns: Sequence[str] = ()
) -> tuple[list[Any], dict[str, list[str]]]:
    """The items of --items, and the values of these columns for each of them."""
    from ..data.events import read_items

    column = getattr(options, "items_item", None) or options.item or "item"
    return read_items(source_of(options, options.items, public=True), column, list(dict.fromkeys(columns)))


def as_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The options given for reading text, in the form of a simulation's settings."""
    found = {
        "separator": _separator(options.separator),
        "encoding": None if options.encoding is None else _encoding(options),
        "columns": _names("--columns", options.columns),
        "items_columns": _names("--items-columns", options.items_columns),
    }
    return {name: value for name, value in found.items() if value is not None}


def check_items_option(options: argparse.Namespace) -> None:
    """Refuse options that need --items without it."""
    about = given(options, [name for name in ("items_columns", "items_item") if hasattr(options, name)])
    if options.items is None and about:
        raise ValueError(f"{about[0]} is about --items FILE, which is missing")


def check_public(options: argparse.Namespace, whose: str) -> None:
    """Refuse a list of items that is, or holds, one of the files of events."""
    from ..data.read import Source, files_of

    lists = [] if options.items is None else [("--items", options.items, options.items)]
    for name in ("include", "exclude", "candidates"):
        for text in getattr(options, name, None) or ():
            if text.startswith("@"):
                lists += [(f"--{name}", text, text[1:])]
    events: list[str] = []
    for path in options.files if lists else ():
        path = "/dev/stdin" if path == "-" else path
        events += [path] if os.path.isfile(path) else files_of(Source(path))
    for option, text, path in lists:
        path = "/dev/stdin" if path == "-" else path
        listed = [path] if os.path.isfile(path) else files_of(Source(path))
        if any(same_file(one, other) for one in listed for other in events):
            raise ValueError(
                f"{option} {text}: is {whose}, so that which items are listed is private; give a list that"
                " is public" + (", or --items-from-data" if option == "--items" else "")
            )


def same_file(one: str, other: str) -> bool:
    """Whether two paths lead to the same existing file."""
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


def _encoding(options: argparse.Namespace) -> str:
    from ..data.read import checked_encoding

    return checked_encoding("--encoding ", options.encoding)


def _separator(text: str | None) -> str | None:
    separator = "\t" if text in ("tab", "\\t") else text
    if separator is not None and len(separator) != 1:
        raise ValueError(f"--separator {text}: must be one character, or the word tab")
    return separator


def _names(option: str, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in next(csv.reader([text]), []))
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if not any(names) or twice is not None:
        why = "is empty" if twice is None else f"names {twice!r} twice"
        raise ValueError(f"{option} {text}: {why}; give a name for each column, separated by commas")
    return names


# --- output -----------------------------------------------------------------------------------------

# Wide enough for anything: output to a file or another program is not wrapped.
_UNLIMITED = 10_000
_READABLE = 100
# Control characters of terminals, characters that some readers take for line ends, and surrogates; `json`
# itself escapes those below a space.
_UNSEEN = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def width() -> int:
    """The number of columns to print on; unlimited if not on a terminal, unless COLUMNS is set."""
    if "COLUMNS" in os.environ or sys.stdout.isatty():
        return max(20, shutil.get_terminal_size().columns)
    return _UNLIMITED


def wrapped(text: str, *, bullet: str = "") -> str:
    """A paragraph wrapped at the width of the terminal; a bullet's further lines are indented below it."""
    return textwrap.fill(
        text, min(width(), _READABLE), initial_indent=bullet, subsequent_indent=" " * len(bullet)
    )


def printable(text: str) -> str:
    """``text`` without characters that control a terminal, which files may contain."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def fitted(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table if it fits; otherwise one block of lines per row, without empty cells."""
    whole = table(header, rows)
    if max(map(len, whole.splitlines())) <= width():
        return whole
    at = next(place for place, name in enumerate(header) if name)  # the column that identifies a row
    blocks = []
    for row in rows:
        title = " ".join(cell for cell in row[: at + 1] if cell)
        named = zip(header[at + 1 :], row[at + 1 :], strict=True)
        lines = [f"{name} {cell}" for name, cell in named if cell]
        blocks.append(
            "\n".join([wrapped(title, bullet="- "), *(wrapped(one, bullet="    ") for one in lines)])
        )
    return "\n".join(blocks)


@contextmanager
def noting(command: str) -> Iterator[list[str]]:
    """Turn the library's warnings, which depend on public facts, into notes on stderr and in the list.

    Other warnings are dropped, as those of arithmetic may depend on the data.
    """
    notes: list[str] = []

    def note(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, UserWarning) and str(message) not in notes:
            notes.append(str(message))
            line = " ".join(map(printable, str(message).split()))
            print(f"discreet {command}: note: {line}", file=sys.stderr, flush=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note
        yield notes


def as_json(value: Any) -> str:
    """JSON that any reader accepts: null instead of nan; labels unescaped except for control characters."""
    text = json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_writable(path: str, *inputs: str | None, option: str = "--out") -> Path:
    """The path of a file to write, checked before any budget is spent: it is none of the ``inputs``."""
    from ..core.state import is_device  # imported here as it loads NumPy, which help does not need

    target = Path(path)
    if target.is_dir():
        raise ValueError(f"{option} {path}: is a directory; name a file in it")
    if is_device(target):
        if not os.access(target, os.W_OK):
            raise ValueError(f"{option} {path}: cannot be written to")
        return target
    folder = target.resolve().parent
    if not folder.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{option} {path}: the folder {folder} cannot be written to")
    taken = [at := target.resolve(), *(at.parents if target.exists() else [])]  # a ledger may be yet to begin
    read = [name for one in inputs if one is not None for name in (one, *glob.glob(one, recursive=True))]
    if any(same_file(path, one) or Path(one).resolve() in taken for one in read):
        raise ValueError(
            f"{option} {path}: is the file that is read, or the ledger, or another output; name another one"
        )
    return target


def write_whole(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    from ..core.state import replacing

    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")


def lines_of(options: argparse.Namespace, option: str, text: str) -> str | list[str]:
    """The nonblank lines of ``@FILE``; any other text unchanged."""
    if not text.startswith("@"):
        return text
    try:
        found = Path(text[1:]).read_bytes()
    except OSError as error:
        why = f"{error.strerror}; @ stands before a file with one item per line"
        raise ValueError(f"{option} {text}: {why}") from None
    source = source_of(options, text[1:], public=True)
    try:
        lines = found.decode(source.encoding).removeprefix("\ufeff").splitlines()
    except UnicodeDecodeError as error:
        line = found.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{option} {text}, line {line}: {source.not_decoded}") from None
    return [line.strip() for line in lines if line.strip()]
