"""Lines of CSV against Python's own reader, a line at a time."""

from __future__ import annotations

import csv
import itertools
import random

import numpy as np
import pytest

from discreet.kernels.csv import BEHIND, ENDLESS, FINE, OPEN, UNEVEN, CsvLines

LONGEST = 60


def twin(block: bytes, separator: str, width: int, places: list[int], skip_bad: bool):
    """Rows with their lines, and what is wrong with the last: Python's reader, given one line."""
    rows, lines, text = [], [], block.decode("utf-8", "surrogateescape")
    broken = text.replace("\r\n", "\n").replace("\r", "\n")
    for number, line in enumerate(broken.removesuffix("\n").split("\n") if broken else (), 1):
        if not line:
            continue
        fault = FINE
        try:
            cells = next(csv.reader([line], delimiter=separator, strict=True))
            fault = FINE if len(cells) == width else UNEVEN
        except csv.Error as error:
            fault = OPEN if "unexpected end" in str(error) else BEHIND
        if len(line.encode("utf-8", "surrogateescape")) > LONGEST and len(line) > LONGEST:
            fault = ENDLESS
        if fault == FINE:
            rows.append([cells[place] for place in places])
            lines.append(number)
        elif fault in (OPEN, ENDLESS) or not skip_bad:
            return rows, lines, fault
    return rows, lines, FINE


def read(block: bytes, separator: str, width: int, places: list[int], skip_bad: bool):
    reader = CsvLines(separator.encode(), width, places, 0, LONGEST)
    columns, lines, fault = reader.read(np.frombuffer(block, np.uint8), skip_bad)
    texts = [
        [letters[a:b].tobytes().decode("utf-8", "surrogateescape") for a, b in itertools.pairwise(ends)]
        for ends, letters in columns
    ]
    return [list(row) for row in zip(*texts, strict=True)], lines.tolist(), fault


@pytest.mark.parametrize("separator", [",", "\t", "§", "𝄞"])
@pytest.mark.parametrize("skip_bad", [False, True])
def test_rows_are_those_of_pythons_reader(separator, skip_bad):
    coins = random.Random(f"{separator} {skip_bad}")
    parts = [
        "a",
        "é",
        "",
        " ",
        '"',
        '""',
        "\n",
        "\r",
        "\r\n",
        "\0",
        "1",
        "茶",
        separator,
        separator,
        separator,
    ]
    for _ in range(4000):
        block = "".join(coins.choices(parts, k=coins.randrange(30))).encode()
        if coins.random() < 0.2:
            block += bytes([coins.choice([0xFF, 0xE9, 0x80])]) + b"b\n"
        if coins.random() < 0.1:
            block += b"x" * coins.choice([LONGEST, LONGEST + 1]) + b"\n"
        width = coins.randrange(1, 4)
        places = coins.sample(range(width), coins.randrange(1, width + 1))
        assert read(block, separator, width, places, skip_bad) == twin(
            block, separator, width, places, skip_bad
        ), block


def test_lines_are_counted_from_block_to_block():
    reader = CsvLines(b",", 2, [1], 1, LONGEST)
    for line, block in ((2, b"a,b\n"), (3, b'"a,b\n')):
        (((ends, letters),), lines, fault) = reader.read(np.frombuffer(block, np.uint8), True)
        assert reader.line == line
    assert (ends.tolist(), letters.size, lines.size, fault) == ([0], 0, 0, OPEN)
    with pytest.raises(ValueError, match="at least one column"):
        CsvLines(b",", 0, [], 0, LONGEST)
    with pytest.raises(IndexError):
        CsvLines(b",", 2, [2], 0, LONGEST)
