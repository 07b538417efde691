"""What the code of the tutorials prints and draws, stored on the pages below each block.

    python -m tools.outputs                              # run every page, and write what it shows
    python -m tools.outputs docs/tutorials/shop.md       # one page
    python -m tools.outputs --check                      # write nothing; fail if something is out of date

The ``python`` blocks of a page run in order in one namespace. ``$ discreet ...`` in a ``console`` block runs
in the folder that this namespace calls ``folder``, ``$ discreet serve ...`` until the page is over. What a
block prints goes below it between ``<!-- output -->`` and ``<!-- /output -->``; figures of matplotlib that it
leaves open become docs/images/tutorials/PAGE-N.png, with the title of the figure as their text. All tutorials
are run, and every other page of docs that has such a mark. Where answers cannot be the same twice, as those
of a live service, the page says ``<!-- output: one run -->``: numbers and pictures may then differ from what
is stored.

A picture carries a fingerprint of what is drawn, so that a check need not draw it. `NOTEBOOKS` are made
from their pages, without running anything.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import io
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discreet.online.registry import REGISTRY
from tools.results import ROOT

DOCS = ROOT / "docs"
PICTURES = DOCS / "images" / "tutorials"
NOTEBOOKS = ("offline", "shop", "bandit")  # of the tutorials; docs/notebooks/NAME.ipynb
END = "<!-- /output -->"
BLOCK = re.compile(
    r"^```(?P<kind>python|console)\n(?P<code>.*?)^```\n"
    r"(?:\n(?P<mark><!-- output(?:: one run)? -->)\n(?P<stored>.*?)" + re.escape(END) + r"\n)?",
    re.DOTALL | re.MULTILINE,
)
NUMBERS = re.compile(r"(?:(?<=\s)-)?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
DOTS_PER_INCH = 100


PORT = re.compile(r"(--port |127\.0\.0\.1:)8745\b")  # of services on pages; here they run at a free one


class Picture(NamedTuple):
    """A figure: its text, the fingerprint of what is drawn, and the file, where it was asked for."""

    title: str
    fingerprint: str
    png: bytes


class Shown(NamedTuple):
    """What one block printed and drew."""

    text: str
    pictures: list[Picture]


def pages() -> list[Path]:
    """The tutorials, and every other page that stores what its code shows."""
    others = (page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "tutorials")
    marked = [page for page in others if END in page.read_text()]
    return [*sorted((DOCS / "tutorials").glob("*.md")), *marked]


# --- running -------------------------------------------------------------------------------------------


def run(page: Path, *, draw: bool = False) -> Iterator[tuple[re.Match[str], Shown]]:
    """Every block of a page, and what it shows."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"  # what commands are wrapped at
    known, path = dict(REGISTRY), list(sys.path)
    try:
        yield from _run(page, draw=draw)
    finally:
        REGISTRY.clear()  # of what a page has registered
        REGISTRY.update(known)
        sys.path[:] = path
        os.environ.pop("COLUMNS")
        os.environ |= {} if before is None else {"COLUMNS": before}


def _run(page: Path, *, draw: bool) -> Iterator[tuple[re.Match[str], Shown]]:
    names: dict[str, Any] = {}
    list(_figures(draw=False))  # what others have left open
    with contextlib.ExitStack() as services, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        for block in BLOCK.finditer(page.read_text()):
            printed, code = io.StringIO(), PORT.sub(rf"\g<1>{port}", block["code"])
            with contextlib.redirect_stdout(printed), warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*FigureCanvasAgg is non-interactive")  # plt.show()
                if block["kind"] == "console" and code.startswith("$ discreet serve "):
                    services.enter_context(_service(code, Path(names["folder"])))
                elif block["kind"] == "console":
                    command(code, Path(names["folder"]))
                else:
                    exec(compile(code, page.name, "exec"), names)
            text = printed.getvalue().strip("\n").replace(f"127.0.0.1:{port}", "127.0.0.1:8745")
            lines = [line.rstrip() for line in text.splitlines()]
            yield block, Shown("\n".join(lines), list(_figures(draw=draw)))


@contextlib.contextmanager
def _service(typed: str, folder: Path) -> Iterator[None]:
    """A service that runs in ``folder``; what it says until it is ready is printed."""
    words = shlex.split(typed.removeprefix("$ discreet "))
    path = os.pathsep.join(os.path.abspath(one) for one in sys.path if one)
    with subprocess.Popen(
        [sys.executable, "-m", "discreet", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(2)]  # its address, and where its key is
            if not said[1]:
                raise ValueError(f"{typed!r}: the service did not start")
            print(*said, sep="", end="")
            yield
        finally:
            process.terminate()


def command(typed: str, folder: Path) -> None:
    """Run ``$ discreet ...`` as typed, and print what it prints.

    A backslash goes on in the next line; ``| grep WORD`` keeps the lines of standard output that match it.
    """
    from discreet.cli import main as discreet

    for line in re.findall(r"^\$ (.*)$", typed.replace("\\\n", " "), re.MULTILINE):
        run, _, wanted = line.partition("| grep ")
        program, *words = shlex.split(run)
        if program != "discreet":
            raise ValueError(f"{line!r}: only discreet's own commands are run")
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = discreet(words)
        kept = [one for one in out.getvalue().splitlines() if re.search(wanted.strip(), one)]
        print(*kept, *err.getvalue().splitlines(), *[f"(exit status {code})"] * (code > 0), sep="\n")


def _figures(*, draw: bool) -> Iterator[Picture]:
    """The open figures, which are closed."""
    plt = sys.modules.get("matplotlib.pyplot")
    for number in plt.get_fignums() if plt else ():
        figure, file = plt.figure(number), io.BytesIO()
        titles = [figure.get_suptitle(), *(axes.get_title() for axes in figure.axes)]
        title = "; ".join(filter(None, titles)).replace("\n", " ")
        mark = fingerprint(figure)
        if draw:
            stamp = {"Software": None, "Comment": mark}
            figure.savefig(file, format="png", dpi=DOTS_PER_INCH, metadata=stamp)
        plt.close(figure)
        yield Picture(title, mark, file.getvalue())


def fingerprint(figure: Any) -> str:
    """A hash of the lines, bars, points and words of a figure, to four digits."""
    told: list[str] = [str(figure.get_size_inches()), figure.get_suptitle()]
    for axes in figure.axes:
        told += [axes.get_title(), axes.get_xlabel(), axes.get_ylabel()]
        told += [text.get_text() for text in axes.texts]
        drawn = [(line.get_label(), line.get_xydata()) for line in axes.lines]
        drawn += [(bar.get_label(), bar.get_extents().get_points()) for bar in axes.patches]
        for several in axes.collections:
            drawn += [(several.get_label(), np.ma.filled(several.get_offsets(), np.nan))]
            drawn += [("", path.vertices) for path in several.get_paths()]
        drawn += [("", np.asarray(image.get_array())) for image in axes.images]
        for label, numbers in drawn:
            told += [str(label), *(f"{number + 0.0:.4g}" for number in np.ravel(numbers).astype(float))]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


# --- pages ---------------------------------------------------------------------------------------------


def picture_path(page: Path, number: int) -> Path:
    return PICTURES / f"{page.stem}-{number}.png"


def written(page: Path, shown: list[tuple[re.Match[str], Shown]]) -> str:
    """The page with what was shown below its blocks."""
    text, parts, last, number = page.read_text(), [], 0, 0
    for block, (printed, pictures) in shown:
        parts.append(text[last : block.start()] + f"```{block['kind']}\n{block['code']}```\n")
        last = block.end()
        inside = [f"```text\n{printed}\n```"] if printed else []
        for picture in pictures:
            number += 1
            if not picture.title:
                raise ValueError(
                    f"{page.name}: figure {number} needs a title, its text for who cannot see it"
                )
            file = os.path.relpath(picture_path(page, number), page.parent)
            inside.append(f"![{picture.title}]({Path(file).as_posix()})")
        if inside:
            mark = block["mark"] or "<!-- output -->"
            parts.append("\n" + mark + "\n" + "\n\n".join(inside) + f"\n{END}\n")
    return "".join(parts) + text[last:]


def write(page: Path) -> None:
    """Run a page and store what it shows."""
    shown = list(run(page, draw=True))
    page.write_text(written(page, shown))
    pictures = [picture for _, one in shown for picture in one.pictures]
    names = {picture_path(page, number): one.png for number, one in enumerate(pictures, 1)}
    PICTURES.mkdir(parents=True, exist_ok=True)
    for old in PICTURES.glob(f"{page.stem}-*.png"):
        if re.fullmatch(rf"{re.escape(page.stem)}-\d+", old.stem) and old not in names:
            old.unlink()
    for path, png in names.items():
        path.write_bytes(png)


def stale(page: Path) -> list[str]:
    """What a page stores that its code does not show, or the other way round; it is run for that."""
    shown = list(run(page))
    found, number = [], 0
    before, after = page.read_text(), written(page, shown)
    for old, new, (_, one) in zip(BLOCK.finditer(before), BLOCK.finditer(after), shown, strict=True):
        kept, made = old["stored"] or "", new["stored"] or ""
        one_run = "one run" in (old["mark"] or "")
        if one_run:
            kept, made = (" ".join(NUMBERS.sub("#", text).split()) for text in (kept, made))
        if kept != made:
            line = before[: old.start()].count("\n") + 1
            found.append(
                f"{page.name}:{line}: stored\n{kept}\nbut shown is (python -m tools.outputs)\n{made}"
            )
        for picture in one.pictures:
            number += 1
            path = picture_path(page, number)
            if not path.exists() or not (one_run or picture.fingerprint.encode() in path.read_bytes()):
                found.append(f"{page.name}: {path.name} is another picture")
    return found


# --- notebooks -----------------------------------------------------------------------------------------


def notebook(page: Path) -> str:
    """A notebook with the words, the code and the stored output of a tutorial."""
    text, last, cells = page.read_text(), 0, []

    def cell(kind: str, source: str, **more: Any) -> None:
        source = source.strip("\n")
        if kind == "markdown":  # pages are in a folder beside the notebooks
            source = re.sub(r"\nThis page is also \[a notebook\].*", "", source)
            source = re.sub(r"\]\((?=[\w-]+\.md)", "](../tutorials/", source)
        if source:
            head = {"cell_type": kind, "id": f"{page.stem}-{len(cells)}", "metadata": {}}
            cells.append(head | more | {"source": source.splitlines(keepends=True)})

    made = f"*Made from docs/tutorials/{page.name}. Needs `pip install 'discreet[sklearn,plots,tables]'`.*"
    for number, block in enumerate(BLOCK.finditer(text)):
        cell("markdown", text[last : block.start()] + (made if number == 0 else ""))
        outputs = list(_stored_outputs(page, block["stored"] or ""))
        cell("code", block["code"], execution_count=number + 1, outputs=outputs)
        last = block.end()
    cell("markdown", text[last:])
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    about["language_info"] = {"name": "python"}
    whole = {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _stored_outputs(page: Path, stored: str) -> Iterator[dict[str, Any]]:
    if printed := re.match(r"```text\n(.*?\n)```", stored, re.DOTALL):
        lines = printed[1].splitlines(keepends=True)
        yield {"name": "stdout", "output_type": "stream", "text": lines}
    for title, file in re.findall(r"^!\[(.*?)\]\((.*?)\)$", stored, re.MULTILINE):
        png = base64.b64encode((page.parent / file).read_bytes()).decode()
        data = {"image/png": png, "text/plain": [f"<Figure: {title}>"]}
        yield {"data": data, "metadata": {}, "output_type": "display_data"}


def notebooks() -> dict[Path, str]:
    """The file of each notebook, and what belongs into it."""
    tutorials = {name: DOCS / "tutorials" / f"{name}.md" for name in NOTEBOOKS}
    return {DOCS / "notebooks" / f"{name}.ipynb": notebook(page) for name, page in tutorials.items()}


# -------------------------------------------------------------------------------------------------------


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.outputs", description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="default: all of them")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if anything is stale")
    options = parser.parse_args(given)
    found = []
    for page in [path.resolve() for path in options.pages] or pages():
        if options.check:
            found += stale(page)
        else:
            write(page)
            print(page.relative_to(ROOT))
    for path, text in notebooks().items():
        if not options.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            found.append(f"{path.name} is not what its page makes")
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
