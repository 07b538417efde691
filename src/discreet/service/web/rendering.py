"""Templates with the words for numbers, and the files that pages load: all of it comes with the package."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

import jinja2
from starlette.requests import Request
from starlette.responses import Response

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
FEEDBACK = {
    "likes": "all items that the person likes",
    "taken": "the item that was taken, or none",
    "value": "what the set was worth",
}
PERIODS = {"none": "for ever", "day": "a day", "week": "a week", "month": "a month"}


class Templates:
    """The templates; whatever they are given is escaped."""

    def __init__(self) -> None:
        self.static = Static()
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader(__package__, "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "utc": utc,
            "number": number,
            "percent": percent,
            "points": points,
            "seconds": seconds,
            "epsilon": epsilon,
            "delta": delta,
            "about": about,
            "interval": interval,
        }
        self._environment.globals |= {
            "static": self.static.address,
            "FEEDBACK": FEEDBACK,
            "PERIODS": PERIODS,
        }

    def render(self, template: str, given: Mapping[str, Any]) -> str:
        """A page, or a part of one."""
        return self._environment.get_template(template).render(given)


class Static:
    """Scripts, styles and licences, held in memory; their addresses change with their content."""

    def __init__(self) -> None:
        folder = resources.files(__package__).joinpath("static")
        self._files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
        self._marks = {name: hashlib.sha256(data).hexdigest()[:12] for name, data in self._files.items()}

    def address(self, name: str) -> str:
        """Where a page finds a file."""
        return f"/static/{name}?{self._marks[name]}"

    async def serve(self, request: Request) -> Response:
        """The file of a request; any other path is not found."""
        name = request.path_params["name"]
        if name not in self._files:
            return Response(status_code=404)
        headers = {
            "cache-control": "public, max-age=31536000, immutable",
            "x-content-type-options": "nosniff",
            "cross-origin-resource-policy": "same-origin",
        }
        return Response(self._files[name], 200, headers, _TYPES[name.rpartition(".")[2]])


# --- words for numbers ---------------------------------------------------------------------------------


def utc(at: float | None) -> str:
    """A time."""
    if at is None:
        return "never"
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%-d %b %Y, %H:%M:%S} UTC"


def number(value: float) -> str:
    """A number with thousands."""
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:,.3g}"


def about(value: float) -> str:
    """A number with two digits that count."""
    return number(float(f"{value:.2g}"))


def percent(value: float, digits: int = 1) -> str:
    """A part as percent."""
    return f"{100 * value:.{digits}f} %"


def points(value: float) -> str:
    """A difference of parts, in percentage points."""
    return f"{100 * value:+.1f}".replace("-", "\u2212")


def seconds(value: float) -> str:
    """A length of time."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if value >= 2 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s"


def epsilon(value: float) -> str:
    """A privacy loss."""
    return f"{value:.3g}"


def delta(value: float) -> str:
    """A small probability."""
    return f"{value:g}".replace("e-0", "e-")


def interval(row: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> dict[str, float]:
    """Where a value and its 95 % stand among all of them, from 0 to 100, for a drawing."""
    spans = [
        (one["value"] - 2 * (one["deviation"] or 0), one["value"] + 2 * (one["deviation"] or 0))
        for one in rows
    ]
    low, high = min(0.0, *(span[0] for span in spans)), max(span[1] for span in spans)
    scale = 100.0 / ((high - low) or 1.0)
    wide = 1.96 * (row["deviation"] or 0)
    return {
        "zero": round(-low * scale, 2),
        "at": round((row["value"] - low) * scale, 2),
        "from": round((row["value"] - wide - low) * scale, 2),
        "to": round((row["value"] + wide - low) * scale, 2),
    }
