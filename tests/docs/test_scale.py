"""The page on stores: its code runs, and its table of sizes is that of the code."""

from __future__ import annotations

import re
from pathlib import Path

from discreet.data.costs import Needs

PAGE = (Path(__file__).parents[2] / "docs" / "scale.md").read_text()


def test_the_code_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "scale.md", "exec"), names)
    assert capsys.readouterr().out == "3 ('jam', 'milk', 'tea')\n2 4\n"


def test_the_sizes_are_those_of_the_code():
    assert "16 N + 2 M (4 M beyond" in PAGE
    rows = 10**8
    assert Needs.of(rows, 2000, False, 1).disk == rows * (16 + 2)  # at most: everybody has one row
    assert Needs.of(rows, 2000, True, 1).disk == rows * (16 + 2 + 8)
    assert Needs.of(rows, 70_000, False, 1).disk == rows * (16 + 4)
    assert "10 R more" in PAGE
    assert Needs.of(rows, 2000, False, 1).disk_meanwhile == rows * (16 + 2 + 10)
