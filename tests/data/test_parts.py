"""What is read in parts is what is read at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from discreet.data import read
from discreet.data.preparing import Identities
from discreet.data.read import column_of


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_lines_end_by_any_break_wherever_a_block_does(end, tmp_path, monkeypatch):
    """No block is longer than two reads: else a file of lone returns would be one endless line."""
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{row},tea{end}" for row in range(100, 150)), newline="")
    monkeypatch.setattr(read, "BLOCK", 20)
    monkeypatch.setattr(read, "LONGEST_LINE", 8)
    with path.open("rb") as file:
        blocks = list(read._whole_lines(read.Source(path), file))
    assert b"".join(blocks) == path.read_bytes()
    assert all(block.endswith(end.encode()) and len(block) <= 40 for block in blocks)


def test_names_are_composed_in_a_part_of_a_column():
    """An Arrow array that begins within another one."""
    texts = ["o\u0308", "ann", "e\u0301", "bob", "bo\u0308b"]
    keys, _ = Identities(b"k" * 32).of(column_of("", "person", pa.array(texts)[1:]))
    composed, _ = Identities(b"k" * 32).of(column_of("", "person", ["ann", "\u00e9", "bob", "b\u00f6b"]))
    np.testing.assert_array_equal(keys, composed)
