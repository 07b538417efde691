"""``--include`` and ``--exclude``: items that are in the list from the start, and that cannot be chosen."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..data import Events
    from .stored import Listed


@dataclass(frozen=True)
class Given:
    """Both options, before the items are known: texts as they were written, and lines of files."""

    include: tuple[Named, ...] = ()
    exclude: tuple[Named, ...] = ()

    @classmethod
    def read(cls, include: Sequence[str], exclude: Sequence[str]) -> Given:
        """The options; their files are read now."""
        return cls(
            tuple(Named.read("--include", text) for text in include),
            tuple(Named.read("--exclude", text) for text in exclude),
        )

    def included(self, events: Events | Listed) -> list[Any]:
        """The items to include."""
        return self._items("--include", self.include, events, unknown=False)

    def excluded(self, events: Events | Listed) -> list[Any]:
        """The items to exclude.

        Of a list that was read off the file nobody knows what is in it, so that what is not is no mistake.
        """
        return self._items("--exclude", self.exclude, events, unknown=events.catalogue == "from data")

    def without_excluded(self, events: Events) -> Events:
        """The same people without the items to exclude, before a list is chosen: these need no votes."""
        import numpy as np

        out = set(self.excluded(events))
        kept = np.array([item not in out for item in events.items], dtype=np.bool_)
        return events if kept.all() else events.only(kept)

    def _items(
        self, option: str, named: tuple[Named, ...], events: Events | Listed, *, unknown: bool
    ) -> list[Any]:
        from ..core.labels import unknown_item
        from ..data.labels import as_text

        items = {as_text(item): item for item in events.items} if named else {}
        found = {}
        for text in (text for one in named for text in one.labels(items)):
            if text in items:
                found[text] = items[text]
            elif not unknown:
                public = events.catalogue == "public"
                raise unknown_item(option, text, list(items), "see the list of items", public=public)
        return list(found.values())


@dataclass(frozen=True)
class Named:
    """One option: labels separated by commas, or the lines of a file."""

    text: str
    lines: tuple[str, ...] | None = None

    @classmethod
    def read(cls, option: str, text: str) -> Named:
        """``@FILE`` is read; blank lines do not count."""
        if not text.startswith("@"):
            return cls(text)
        try:
            lines = Path(text[1:]).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = "is no text in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
            raise ValueError(
                f"{option} {text}: {why}; @ stands before a file with one item per line"
            ) from None
        return cls(text, tuple(line.strip() for line in lines if line.strip()))

    def labels(self, known: Container[str]) -> list[str]:
        """The labels; a text that is one label as a whole is that one, whatever commas it holds."""
        if self.lines is not None:
            return list(self.lines)
        if self.text in known:
            return [self.text]
        return [part.strip() for part in self.text.split(",") if part.strip()]
