"""Reference pages: one for each public class, with a table of its parameters; an overview for each package.

The pages are made when the site is built. What a parameter does is what the docstring of its class says: the
sentence that names it, or else, for those that all learners share, the sentence of `COMMON`.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

PACKAGES = ("online", "offline", "objectives", "constraints", "privacy", "data")
MARK = "<!-- classes -->"
COMMON = {
    "n_items": "The number of items to choose from.",
    "k": "The number of items in a set.",
    "rounds": "The number of people who will come; None where a learner needs no horizon.",
    "budget": "A `Budget`, a share of one, or a `Gate`: what may be spent on each person.",
    "calibration": '"tight" computes the noise from exact accounts; "published" takes a paper\'s constants.',
    "seed": "None draws secure randomness; a number makes a run reproducible, and is marked as not private.",
    "labels": "Names of the items, by which they can be given and are shown.",
    "bound": "The public upper bound of one person's values.",
    "constraint": "Which sets are allowed; a number stands for `Cardinality`.",
    "include": "Public items that are chosen from the start.",
    "exclude": "Public items that cannot be chosen.",
    "sums": "How private running sums are factorised.",
    "start": "Released estimates of an earlier learner to begin with.",
}


def classes(package: str) -> dict[str, Any]:
    """The public classes of a package, which have a docstring of their own."""
    home = importlib.import_module(f"discreet.{package}")
    found = {name: getattr(home, name) for name in home.__all__}
    return {name: one for name, one in found.items() if inspect.isclass(one) and one.__dict__.get("__doc__")}


def path(package: str, name: str) -> str:
    return f"reference/{package}/{name}.md"


def first_sentence(thing: Any) -> str:
    paragraph = inspect.getdoc(thing).split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=\.)\s", paragraph)[0]


def about(name: str, words: str) -> str:
    """The sentence of a docstring that names a parameter first."""
    for sentence in re.split(r"(?<=[.;])\s+(?=[A-Z`])", words):
        if f"``{name}``" in sentence or f"``{name}=" in sentence:
            return sentence
    return COMMON.get(name, "")


def parameters(thing: Any) -> str:
    """The table of a class's parameters: its name, its type, its default, and what its docstring says."""
    try:
        given = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return ""
    prose = [part for part in inspect.getdoc(thing).split("\n\n") if not part.lstrip().startswith(">>>")]
    words = " ".join(" ".join(prose).split())
    rows = []
    for one in given:
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) or one.name.startswith("_"):
            continue
        kind = "" if one.annotation is one.empty else f"`{str(one.annotation).replace(' | ', ' or ')}`"
        default = "required" if one.default is one.empty else f"`{one.default!r}`"
        if " object at 0x" in default or "factory" in default:
            default = "its own"
        cells = (f"`{one.name}`", kind, default, about(one.name, words))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    if not rows:
        return ""
    return "\n".join(["| parameter | type | default | what it is |", "|---|---|---|---|", *rows]) + "\n"


def page(package: str, name: str, thing: Any) -> str:
    """The page of one class."""
    kin = [other for other in classes(package) if other != name]
    alike = ", ".join(f"[{other}]({other}.md)" for other in kin)
    table = parameters(thing)
    return (
        f"# {name}\n\n`from discreet.{package} import {name}`\n\n"
        f"::: {thing.__module__}.{thing.__qualname__}\n\n"
        + (f"## Parameters\n\n{table}\n" if table else "")
        + f"## See also\n\n{alike}\n"
    )


# --- called by mkdocs ------------------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """Every package's overview leads its classes in the navigation."""
    reference = next(entry["Reference"] for entry in config.nav if "Reference" in entry)
    for place, entry in enumerate(reference):
        (title, target), *_ = entry.items()
        if (package := Path(target).stem) in PACKAGES:
            children = [{name: path(package, name)} for name in sorted(classes(package))]
            reference[place] = {title: [target, *children]}
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for package in PACKAGES:
        for name, thing in classes(package).items():
            files.append(File.generated(config, path(package, name), content=page(package, name, thing)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The overview's table of classes."""
    package = Path(page.file.src_uri).stem
    if MARK not in markdown:
        return markdown
    rows = [
        f"| [{name}]({package}/{name}.md) | {first_sentence(one)} |" for name, one in classes(package).items()
    ]
    return markdown.replace(MARK, "\n".join(["| class | what it is |", "|---|---|", *rows]))
