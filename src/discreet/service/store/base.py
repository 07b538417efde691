"""What the service asks of a database: transactions in plain SQL, and outcomes in groups.

Statements are written once, with ``?`` for values; a store says the rest in its own dialect.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib import resources
from typing import Any, NamedTuple, Protocol

RECORDED, DUPLICATE, LATE = "recorded", "duplicate", "late"
EARLY = "early"  # another process has not written down yet whom the place was served to: ask again


class Transaction(Protocol):
    """Statements that happen together or not at all."""

    def one(self, sql: str, *values: Any) -> Any:
        """The first row, or None."""

    def all(self, sql: str, *values: Any) -> list[Any]:
        """All rows."""

    def locked(self, sql: str, *values: Any) -> list[Any]:
        """All rows, which nobody else changes or counts on before this transaction ends."""

    def do(self, sql: str, *values: Any) -> int:
        """Carry out a statement; how many rows it was about."""

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Carry out a statement for each of these rows."""

    def now(self) -> float:
        """The database's clock, in seconds."""


class Outcome(NamedTuple):
    """What came of a decision: to be written down before it is acknowledged."""

    experiment: int
    epoch: int
    place: int
    altered: bool
    body: bytes
    mark: bytes  # `keys.NOBODY` for none


class Served(NamedTuple):
    """How far a hand has been served, and to whom."""

    experiment: int
    epoch: int
    first: int
    served: int
    over: float | None  # how many seconds ago its last place was served
    altered: str = ""  # offsets of places that showed other items than were dealt
    start: int = 0  # the offset of the first of these
    marks: bytes = b""  # one after the other, `keys.NOBODY` for none


class Fenced(Exception):
    """Another keeper has taken over; nothing was written."""


class Frozen(Fenced):
    """The store has gone back in time, and nothing is released in this period; nothing was written."""


class Conflict(Exception):
    """There is such a row already; nothing was written."""


class StoreError(Exception):
    """The database cannot be reached or written to; nothing was acknowledged."""


class Store(ABC):
    """A database of the service."""

    url: str
    patience = math.inf  # seconds for which a process is believed to live after its last `beat`

    @abstractmethod
    def migrate(self) -> int:
        """Bring the tables up to this release; the number of the last migration."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Transaction]:
        """Commits when it is left, and is rolled back by an exception."""

    @abstractmethod
    def record(self, outcomes: Sequence[Outcome], served: Sequence[Served]) -> list[str]:
        """Write down what was served, then outcomes, durably; for each: recorded, duplicate, late or early.

        An outcome is taken once per place, if its hand is not being folded yet, and if it is written down
        whom the place was served to: a round counts by its decision (`visits`). Whoever closes a hand
        (`Transaction.locked`) waits for groups that count on it.
        """

    @abstractmethod
    def claim(self, experiment: int, epoch: int, owner: str, segment: str = "") -> Any:
        """The next hand of a segment that waits, as `Hand.read` takes it, for one process; or None."""

    @abstractmethod
    def recover(self, owner: str) -> None:
        """What was not served of hands of processes that are gone is burnt; ``owner`` is not gone."""

    @abstractmethod
    def scrub(self) -> None:
        """Leave nothing behind of rows that were deleted, as far as this database can."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""

    # --- several processes; a store of one process needs none of these ----------------------------

    def beat(self, owner: str, *, new: bool = False) -> bool:  # noqa: ARG002
        """This process lives, for `patience` from now on; False once it was taken for dead.

        A process that was taken for dead goes on under another name (``new``). Its hands may be closed.
        """
        return True

    def leave(self, owner: str) -> None:  # noqa: B027
        """This process ends: others may take over what it kept."""

    def lease(self, experiment: int, holder: str, *, force: bool = False) -> int | None:  # noqa: ARG002
        """Become, or stay, the keeper of an experiment; the fence number, or None while another is.

        ``force`` takes it from a keeper that lives, who is fenced off from then on.
        """
        return 0

    def check_fence(self, tx: Transaction, experiment: int, holder: str, fence: int) -> None:  # noqa: B027
        """Refuse to go on (`Fenced`) when another keeper has taken over; nobody does before the end."""


def migrations() -> Iterator[tuple[int, str]]:
    """Numbered changes of the tables, in order."""
    folder = resources.files(__package__).joinpath("migrations")
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if file.name.endswith(".sql"):
            yield int(file.name.split("_")[0]), file.read_text()


def statements(script: str) -> Iterable[str]:
    """The statements of a script without its comments."""
    lines = [line for line in script.splitlines() if not line.startswith("--")]
    return [one.strip() for one in "\n".join(lines).split(";") if one.strip()]
