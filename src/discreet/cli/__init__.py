"""The command line: ``discreet COMMAND``. Each command is one module of this package.

A command module has ``NAME``, ``HELP`` (one line), ``add_arguments(parser)`` and ``run(options) -> int``, and
does its imports inside `run`, so that help is fast. Errors that a user can fix are raised as ValueError,
TypeError or OSError.

Exit codes: 0 done, 2 a mistake in the options or in a file, 3 refused by a privacy budget, 130 interrupted.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from .. import __version__
from .common import noting, printable

__all__ = ["main"]

OK, MISTAKE, REFUSED, INTERRUPTED = 0, 2, 3, 130
# In the order of the overview.
COMMANDS = (
    "demo",
    "select",
    "recommend",
    "prepare",
    "verify",
    "report",
    "plan",
    "simulate",
    "serve",
    "service",
    "audit",
    "bench",
    "completion",
)
# If this variable is set, errors end in a traceback, for debugging.
DEBUG = "DISCREET_DEBUG"
_OVERVIEW = """usage: discreet COMMAND [options]

Choose a few things out of many for people whose preferences are private.

{commands}

discreet COMMAND --help says what a command takes, with an example.
example: discreet select events.csv --person user --item page --items all.csv --k 5 --epsilon 1"""


class Parser(argparse.ArgumentParser):
    """argparse, with errors in one line, no abbreviated options, and no repeated ones.

    An option with one value is refused if it is given twice, as the first value would be dropped silently.
    Options that may be repeated have ``action="append"``.
    """

    def __init__(self, prog: str, description: str) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(prog, description=description, formatter_class=layout, allow_abbrev=False)
        self._seen: set[str] = set()
        for name, action in ((None, _Once), ("store", _Once), ("store_true", _OnceTrue)):
            self.register("action", name, action)

    def parse_known_args(self, *args: Any, **options: Any) -> Any:
        self._seen.clear()
        return super().parse_known_args(*args, **options)

    def once(self, option: str | None, name: str) -> None:
        """Refuse ``option`` if it occurred earlier in this parse."""
        if option is None:
            return  # a positional argument
        if name in self._seen:
            self.error(f"{option} is given twice; give it once")
        self._seen.add(name)

    def error(self, message: str) -> NoReturn:
        self.exit(MISTAKE, f"{self.prog}: {message}; see {self.prog} --help\n")


class _Once(argparse._StoreAction):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        parser.once(option_string, self.dest)
        super().__call__(parser, namespace, values, option_string)


class _OnceTrue(argparse._StoreTrueAction):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        parser.once(option_string, self.dest)
        super().__call__(parser, namespace, values, option_string)


def command(name: str) -> Any:
    return import_module(f"{__name__}.{name}")


def parser_of(name: str) -> Parser:
    """The arguments of a command; every one has ``--json``."""
    module = command(name)
    about = module.HELP[:1].upper() + module.HELP[1:] + "."
    parser = Parser(prog=f"discreet {module.NAME}", description=about)
    module.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; user errors never end in a traceback."""
    first, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if [first, *rest[:1]] == ["ledger", "show"]:  # of a ledger: its report
        first, rest = "report", rest[1:]
    if first in COMMANDS:
        return guarded(f"discreet {first}", lambda: _run(first, rest))
    return guarded("discreet", lambda: _without_command(first, rest))


def guarded(prog: str, work: Callable[[], int]) -> int:
    """Run ``work()``, turning every outcome into an exit code and at most one line on standard error."""
    try:
        _usable_streams()
        code = work()
        sys.stdout.flush()
    except SystemExit as ended:  # argparse has printed the message
        return ended.code if isinstance(ended.code, int) else OK
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader has stopped, e.g. `discreet demo | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        found = _code(error)
        if found is None or os.environ.get(DEBUG):
            raise
        print(f"{prog}: {_one_line(error)}", file=sys.stderr)
        return found
    return code


def _run(name: str, arguments: Sequence[str]) -> int:
    options = parser_of(name).parse_args(arguments)
    try:
        with noting(name):
            code: int = command(name).run(options)
            return code
    except ValueError as error:
        # Details reveal data about people; commands without the option are for data that may be seen.
        details = getattr(error, "details", "")
        if details and getattr(options, "insecure_diagnostics", True):
            raise ValueError(f"{error}: {details}") from error
        raise


def _without_command(first: str, rest: Sequence[str]) -> int:
    """Help, the version, or the error for an unknown command."""
    commands = "\n".join(f"  {name:<12} {command(name).HELP}" for name in COMMANDS)
    if first == "help" and rest and rest[0] in COMMANDS:
        parser_of(rest[0]).print_help()
    elif first in ("-h", "--help", "help"):
        print(_OVERVIEW.format(commands=commands))
    elif first in ("-V", "--version"):
        print(f"discreet {__version__}")
    elif not first:
        print(_OVERVIEW.format(commands=commands), file=sys.stderr)
        return MISTAKE
    elif first.startswith("-"):
        raise ValueError(f"{first} is not an option here; give a command first: {', '.join(COMMANDS)}")
    else:
        near = difflib.get_close_matches(first, COMMANDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COMMANDS)}"
        raise ValueError(f"{first!r} is not a command; {hint}")
    return OK


def _code(error: Exception) -> int | None:
    """The exit code for an error; None if it is a bug of the library."""
    theirs = ValueError | TypeError | OSError | ImportError | NotImplementedError | MemoryError
    if isinstance(error, theirs | ArithmeticError):
        return MISTAKE
    from ..privacy import BudgetExceeded

    return REFUSED if isinstance(error, BudgetExceeded) else None


def _one_line(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory for this"
    if isinstance(error, ArithmeticError):
        return f"these numbers are too extreme to compute with ({error.args[-1]}); choose less extreme ones"
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{printable(str(error.filename))}: {error.strerror.lower()}"
    return " ".join(printable(word) for word in str(error).split()) or type(error).__name__


def _usable_streams() -> None:
    """Let labels in any language be printed on any terminal, escaped if its encoding lacks the characters.

    Without a standard output there is nowhere to show the results; without a standard error, its messages
    must not end up among the results.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        raise ValueError("standard output is closed, so that no result could be shown; direct it to a file")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
