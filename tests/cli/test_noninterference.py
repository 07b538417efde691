"""Nothing of one person's rows leaves a command but through noise.

Where noise is added, it is added to zeros here, and choices are among equals. A command then reads two tables
that differ in the rows of one person. What it prints and writes must be the same, byte for byte, but for
stores, which are as private as the tables.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import random
import shutil
import warnings
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from discreet.cli import main
from discreet.core import page
from discreet.data import events as reading
from discreet.data import preparing
from discreet.objectives.rows import RowPopulation
from discreet.privacy import accountant, population
from discreet.privacy.accountant import Release
from discreet.privacy.partitions import PartitionSelection

ITEMS = ["tea", "milk", "jam", "bread", "7", "30"]
TARGET = "p3"
COLUMNS = ["who", "what", "much"]


def rows_of(rng, person, most=6):
    return [
        (person, rng.choice(ITEMS), rng.choice([0.0, 0.25, 0.5, 1.0])) for _ in range(rng.randrange(1, most))
    ]


def tables(rng, presence, bad):
    """Two tables that differ in one person's rows; with ``bad``, some of them cannot be read."""
    others = [row for number in range(9) if number != 3 for row in rows_of(rng, f"p{number}")]
    others += [("p0", item, 0.5) for item in ITEMS]
    found = []
    order = rng.random()
    for world in (0, 1):
        mine = rows_of(rng, TARGET, 9)
        if bad:
            mine += [
                (TARGET, rng.choice(["elsewhere", "\x00", " "]), 1.0),
                (TARGET, "tea", rng.choice([7.0, -1.0])),
            ]
        if presence and world:
            mine = []
        both = [*others, *mine]
        random.Random(order).shuffle(both)
        found.append(both)
    return found


def as_csv(rows, folder):
    text = "".join(f"{a},{b},{c}\n" for a, b, c in [tuple(COLUMNS), *rows])
    (folder / "events.csv").write_text(text)
    return ["events.csv"]


def as_gzip(rows, folder):
    as_csv(rows, folder)
    (folder / "events.csv.gz").write_bytes(gzip.compress((folder / "events.csv").read_bytes()))
    (folder / "events.csv").unlink()
    return ["events.csv.gz"]


def as_frames(name, write):
    def written(rows, folder):
        write(pd.DataFrame(rows, columns=COLUMNS), folder / name)
        return [name]

    return written


def as_files(rows, folder):
    half = len(rows) // 2
    for number, part in enumerate((rows[:half], rows[half:])):
        as_csv(part, folder)
        (folder / "events.csv").rename(folder / f"events{number}.csv")
    return ["events0.csv", "events1.csv"]


FILES = {
    "CSV": as_csv,
    "gzip": as_gzip,
    "Parquet": as_frames("events.parquet", lambda frame, path: frame.to_parquet(path)),
    "Feather": as_frames("events.feather", lambda frame, path: frame.to_feather(path)),
    "several files": as_files,
}
PERSON = ["--person", "who", "--item", "what"]
LISTED = [*PERSON, "--items", "items.csv"]
SMALL = ["--epsilon", "1"]
SEED = ["--seed", "1"]
SELECT = ["select", "FILE", *LISTED, "--k", "2", *SMALL, "NEIGHBOURS"]
# Lines are run in turn; with "skip bad rows" in its name, some rows are bad.
COMMANDS = {
    "select": [[*SELECT, *SEED, "--json", "--out", "chosen.json"]],
    "select, explained": [[*SELECT, *SEED, "--explain", "--release-gains", "0.2"]],
    "select several": [[*SELECT, *SEED, "--objective", "several", "--json"]],
    "select, skip bad rows": [[*SELECT, *SEED, "--weight", "much", "--skip-bad", "--cap", "2", "--json"]],
    "select, knapsack": [[*SELECT, *SEED, "--constraint", "knapsack:price:3", "--json"]],
    "select, private items": [
        ["select", "FILE", *PERSON, "--items-private", "0.5", "--k", "2", *SMALL, "--delta", "1e-6", *SEED,
         "NEIGHBOURS", "--json"],
    ],
    "select, private items without some": [
        ["select", "FILE", *PERSON, "--items-private", "0.5", "--exclude", "rare", "--exclude", "jam,tea",
         "--k", "9", *SMALL, "--delta", "1e-6", *SEED, "NEIGHBOURS"],
    ],
    "select nearest": [[*SELECT, *SEED, "--objective", "nearest", "--vectors", "price", "--json"]],
    "select, columns named": [
        [*SELECT, *SEED, "--include", "tea", "--candidates", "milk,7", "--constraint", "partition:price:2",
         "--show", "price", "--delta", "1e-6", "--method", "exact"],
    ],
    "ledger": [
        [*SELECT, "--ledger", "people.ledger", "--ledger-epsilon", "2", "--out", "chosen.json"],
        [*SELECT, "--ledger", "people.ledger", "--exclude", "tea"],
        [*SELECT, "--ledger", "people.ledger"],
        ["report", "people.ledger", "--out", "ledger.html"],
        ["report", "chosen.json", "--out", "chosen.html"],
    ],
    "store": [
        ["prepare", "FILE", *LISTED, "--to", "store", "--buckets", "2"],
        ["verify", "store"],
        ["select", "store", "--k", "2", *SMALL, *SEED, "NEIGHBOURS", "--release-gains", "0.2"],
    ],
    "store, skip bad rows": [
        ["prepare", "FILE", *LISTED, "--to", "store", "--skip-bad", "--weight", "much", "--highest", "1",
         "--json"],
        ["select", "store", "--k", "2", *SMALL, *SEED, "NEIGHBOURS", "--json"],
    ],
    "more rows in a store": [
        ["prepare", "before.csv", *LISTED, "--to", "store", "--buckets", "2"],
        ["prepare", "FILE", *PERSON, "--append", "--to", "store"],
        ["select", "store", "--k", "2", *SMALL, *SEED, "NEIGHBOURS"],
    ],
    "recommend": [
        ["recommend", "fit", "FILE", *LISTED, *SMALL, *SEED, "NEIGHBOURS", "--to", "model", "--export",
         "model.json"],
        ["recommend", "for", "model", "--history", "tea", "--k", "2"],
        ["recommend", "for", "model", "--json"],
        ["report", "model", "--out", "model.html"],
    ],
    "recommend, skip bad rows": [
        ["recommend", "fit", "FILE", *LISTED, *SMALL, "NEIGHBOURS", "--weight", "much", "--skip-bad", "--to",
         "model", "--ledger", "people.ledger", "--ledger-epsilon", "2", "--ledger-delta", "1e-5"],
        ["ledger", "show", "people.ledger"],
    ],
    "recommend pairs": [
        ["recommend", "fit", "FILE", *LISTED, "--epsilon", "900", *SEED, "NEIGHBOURS", "--to", "model"],
        ["recommend", "for", "model", "--history", "tea,jam"],
    ],
}  # fmt: skip


def noise_alone(draw):
    """A draw that is told of zeros."""
    return lambda release, values, *given: draw(release, np.zeros_like(values), *given)


@contextlib.contextmanager
def held_still(faults=()):
    """What is drawn does not depend on data."""
    chosen, drawn = reading.choose_items, accountant.sources.randomness

    def choose_items(events, gate, **options):
        chosen(events, gate._seen_as(source=drawn(7)), **options)  # which pays
        return events.only(np.array([str(item) in ITEMS[:4] for item in events.items], dtype=np.bool_))

    def known(seed):
        return drawn(0 if seed is None else seed)

    fixed = SimpleNamespace(token_bytes=lambda size: bytes(size), token_hex=lambda size: "0" * 2 * size)
    when = SimpleNamespace(now=lambda _: pd.Timestamp("2026-11-03"))
    patches = [
        *(
            (Release, name, noise_alone(getattr(Release, name)))
            for name in ("noisy", "choice", "permute_and_flip")
        ),
        # A seeded source is one for all: how many words a draw takes must not depend on who is there.
        (Release, "sample", lambda _, people, __: np.arange(people)),
        (PartitionSelection, "named", lambda _, counts, __: np.zeros(counts.size, dtype=np.bool_)),
        (reading, "choose_items", choose_items),
        (preparing, "secrets", fixed),
        (page, "datetime", when),
        (accountant.sources, "randomness", known),
        (population, "randomness", known),
        *faults,
    ]
    with contextlib.ExitStack() as stack:
        for place, name, value in patches:
            stack.enter_context(mock.patch.object(place, name, value))
        yield


def seen(folder, rows, kind, name, presence, faults=()):
    """All that a command prints and writes about these rows."""
    folder.mkdir(parents=True)
    files = FILES[kind](rows, folder)
    (folder / "items.csv").write_text("what,price\n" + "".join(f"{item},1\n" for item in ITEMS))
    (folder / "before.csv").write_text("who,what\nq1,tea\nq1,milk\nq2,jam\n")
    own = {*os.listdir(folder), "store"}
    named = {
        "FILE": files,
        "NEIGHBOURS": ["--neighbours", "add_remove", "--max-people", "20"] if presence else [],
    }
    found = []
    with contextlib.chdir(folder), held_still(faults):
        for line in COMMANDS[name]:
            words = [word for one in line for word in named.get(one, [one])]
            out, err = io.StringIO(), io.StringIO()
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    code = main(words)
            found.append(
                (words[:2], code, out.getvalue(), err.getvalue(), [str(one.message) for one in warned])
            )
    for path in sorted(folder.iterdir()):
        if path.name not in own:
            private = path.is_dir() or ".ledger" in path.name
            found.append((path.name, None if private else path.read_bytes()))
    found += [(path.name, path.read_bytes()) for path in folder.glob("store/labels.json")]
    return found


def difference(folder, name, kind, seed, faults=()):
    """The first thing that tells the tables apart; None if nothing does."""
    rng = random.Random(f"{name} {kind} {seed}")
    presence = rng.random() < 0.5
    made = tables(rng, presence, bad="bad rows" in name)
    pair = [seen(folder / str(at), rows, kind, name, presence, faults) for at, rows in enumerate(made)]
    shutil.rmtree(folder)
    return next((both for both in zip(*pair, strict=True) if both[0] != both[1]), None)


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("name", COMMANDS)
def test_two_tables_that_differ_in_one_person_look_the_same(tmp_path, name, kind):
    assert difference(tmp_path / "here", name, kind, 0) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_two_tables_that_differ_in_one_person_look_the_same_at_length(tmp_path, name):
    for seed in range(1, 60):
        for kind in FILES:
            assert difference(tmp_path / "here", name, kind, seed) is None, (seed, kind)


def test_commands_end_well(tmp_path):
    """Only the run that the ledger has no room for is refused: otherwise there is nothing to compare."""
    for name in COMMANDS:
        for presence in (False, True):
            rows, _ = tables(random.Random(1), presence, "bad rows" in name)
            told = seen(tmp_path / name / str(presence), rows, "CSV", name, presence)
            codes = [one[1] for one in told if isinstance(one[1], int)]
            assert codes == ([0, 0, 3, 0, 0] if name == "ledger" else [0] * len(COMMANDS[name])), (name, told)


# --- faults ----------------------------------------------------------------------------------------------


def says_how_many(family, events, **options):
    """The command says how many rows it has read."""
    warnings.warn(f"{events.indices.size} rows", stacklevel=1)
    return OF_EVENTS(family, events, **options)


OF_EVENTS = RowPopulation.of_events.__func__
FAULTS = {
    "noise on true sums": (Release, "noisy", Release.noisy, "select, explained"),
    "choices by true scores": (
        Release,
        "permute_and_flip",
        lambda _, scores, *__: int(np.argmax(scores)),
        "select",
    ),
    "rows are counted": (RowPopulation, "of_events", classmethod(says_how_many), "select"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(tmp_path, fault):
    place, what, faulty, name = FAULTS[fault]
    found = [difference(tmp_path / "here", name, "CSV", seed, [(place, what, faulty)]) for seed in range(4)]
    assert any(one is not None for one in found)
