"""One person's row changed in every way: nothing differs for others but what the account covers.

A sample of ``tools/fuzz_rows.py``, which ``make audit`` runs at length, and the faults that it must notice.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import fuzz_rows

PAGE = (Path(__file__).parents[2] / "docs" / "rows.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("part", range(2))
def test_a_changed_row_changes_nothing_else(part: int) -> None:
    tally = fuzz_rows.fuzz(80, seed=7, first=80 * part)
    assert not tally.differ, "\n".join(tally.differ)
    assert tally.count > 60


@pytest.mark.parametrize("fault", fuzz_rows.FAULTS, ids=lambda fault: fault.__name__)
def test_faults_are_noticed(fault) -> None:
    """The cases in which the stored run noticed it."""
    stored = re.search(rf"\| `{fault.__name__}` \|.*\| (\d+) \|", PAGE)
    assert stored is not None
    tally = fuzz_rows.Tally()
    with fault():
        fuzz_rows.case(int(stored[1]) - 1, 1, tally)
    assert tally.differ
    fuzz_rows.case(int(stored[1]) - 1, 1, clean := fuzz_rows.Tally())
    assert not clean.differ


def test_the_stored_run_is_long_and_saw_nothing() -> None:
    count = re.search(r"^([\d,]+) times one row", PAGE, re.MULTILINE)
    assert count is not None
    assert int(count[1].replace(",", "")) >= 20_000
    assert "other than the refusals below: nothing." in PAGE
    for command, reader in fuzz_rows.pairs():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{command}` |"))
        cells = [cell.strip() for cell in row.split("|")[2:-1]]
        assert cells[[*fuzz_rows.READERS, "Spark"].index(reader)], (command, reader)


def test_every_refusal_is_promised() -> None:
    """What a refusal of a row may say is one of a few sentences, and none of them names a row."""
    for words in fuzz_rows.REFUSALS:
        named = re.sub("'(who|what|much)'|event's|person's", "", words)
        assert not re.search(r"'|row \d|line \d", named)
