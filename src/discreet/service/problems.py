"""Refusals as RFC 9457 has them, with fixed texts: none of them repeats what was sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec


@dataclass(frozen=True)
class Problem(Exception):
    """A refusal: a status, a name that programs go by, and a sentence."""

    status: int
    name: str
    title: str
    more: dict[str, Any] = field(default_factory=dict)
    retry_after: int | None = None

    def body(self) -> bytes:
        """As JSON."""
        record = {"type": f"about:blank#{self.name}", "title": self.title, "status": self.status}
        return msgspec.json.encode(record | self.more)

    def with_(self, **more: Any) -> Problem:
        """The same with more to go by; public facts only."""
        return Problem(self.status, self.name, self.title, {**self.more, **more}, self.retry_after)


BAD_BODY = Problem(422, "body", "The body is not what this route takes; see /docs.")
UPGRADE = Problem(400, "upgrade", "This service speaks HTTP/1.1: ask without an Upgrade header.")
TOO_LARGE = Problem(413, "too-large", "The body is larger than this service takes.")
NO_KEY = Problem(401, "no-key", "An API key is needed: Authorization: Bearer KEY.")
WRONG_ROLE = Problem(403, "role", "This API key may not do that.")
NOT_FOUND = Problem(404, "not-found", "There is no such thing.")
EXISTS = Problem(409, "exists", "There is one of this name already.")
NOT_SIGNED = Problem(404, "decision", "This service has made no such decision.")
NOT_RUNNING = Problem(409, "not-running", "The experiment is paused or frozen.")
FROZEN = Problem(409, "frozen", "The experiment is frozen until its budget renews.")
FEW_ITEMS = Problem(409, "few-items", "Too many items are excluded: fewer are left than a set has.")
WRONG_OUTCOME = Problem(422, "outcome", "The outcome is not of the kind that this experiment learns from.")
PERSON = Problem(422, "person", "The decision must say whom it is for, unless its population is anonymous.")
KEY = Problem(422, "idempotency-key", "An idempotency key has 1 to 256 printable characters of ASCII.")
SEGMENT = Problem(422, "segment", "The decision must name one of the experiment's segments, if it has any.")
OTHER_SEGMENTS = Problem(
    409, "other-segments", "Experiments of one population must have the same segments, or none."
)
OVER_BUDGET = Problem(409, "over-budget", "The budget of this population does not hold that.")
BUSY = Problem(503, "busy", "No decision can be made at the moment; try again.", retry_after=1)
NO_STORE = Problem(503, "store", "The database cannot be written to; nothing was recorded.", retry_after=1)
RATE = Problem(429, "rate", "This API key asks too often.", retry_after=1)
FAILED = Problem(500, "failed", "Something went wrong here; nothing was recorded.")
