"""What experiments and populations are asked to be, and the settings of a service, checked as a whole."""

from __future__ import annotations

import math
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec
from msgspec import Meta

from ..core.options import Adjacency, Feedback
from ..privacy import Budget

Period = Literal["none", "day", "week", "month"]
# What can be shown, and written to any database.
_PRINTABLE = r"^[^\x00-\x1f\x7f]*$(?!\n)"  # for Python "$" is also before a last line break
ShortText = Annotated[str, Meta(min_length=1, max_length=100, pattern=_PRINTABLE)]
Label = Annotated[str, Meta(min_length=1, max_length=512, pattern=_PRINTABLE)]
Epsilon = Annotated[float, Meta(gt=0, le=1e6)]
WEEK = 7 * 86400.0  # seconds
# The key of an outcome, by feedback: what is sent.
OUTCOMES: dict[Feedback, str] = {"full": "likes", "slots": "taken", "bandit": "value"}


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the database holds as JSON."""

    @classmethod
    def read(cls, text: str) -> Self:
        return msgspec.json.decode(text, type=cls)

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class PopulationConfig(Stored, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """People with one budget per period, for all experiments about them.

    ``neighbours``: what one person reports is compared with anything else ("replace") or with nothing
    ("add_remove"). Which decisions there are, and for whom, is public under both. ``anonymous``: decisions
    need not say whom they are for. Nobody is counted then, and ``max_rounds_per_person`` is believed.
    """

    epsilon: Epsilon
    delta: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    neighbours: Adjacency = "replace"
    max_rounds_per_person: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    definition: Literal["pure", "zcdp", "gdp"] = "pure"
    period: Period = "month"
    anonymous: bool = False

    @property
    def budget(self) -> Budget:
        if not math.isfinite(self.epsilon):
            raise ValueError("epsilon must be a finite number")
        return Budget(self.epsilon, self.delta, self.neighbours, self.max_rounds_per_person)


class ConstraintConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A limit on the items of each group in a set, for example one of each category."""

    groups: dict[str, list[str]]
    limits: dict[str, int] = {}


class ExperimentConfig(Stored, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A few of these items for everybody who comes.

    ``feedback`` is what is known of a person after a decision: "full" (all items that they would take,
    whatever was shown), "slots" (which of the shown items was taken, or none) or "bandit" (the value of the
    set, from 0 to ``bound``). An outcome names what it holds: `OUTCOMES`. ``share`` is the part of the
    population's budget, and ``measure`` the part of that for the released shares of people served.
    ``outcome_wait`` seconds after its block is over, a decision without an outcome counts as "took nothing".
    ``holdout`` is the part of decisions that show ``control``, a set to compare with, or random sets where
    that is empty. ``block_size`` is how many decisions are allocated at a time; by default as many as come in
    a few seconds. ``sticky`` seconds, from one full stretch of them to the next, the same person has the same
    set. ``segments`` are the values of a public attribute, such as countries: each has a learner of its own,
    and every decision names one. ``candidates`` are the items that alone can be shown, a public list with the
    best first, which is what is shown until something was released; the next period knows no other items.
    ``seed`` is for tests: anyone who knows it can undo the noise, and the account says so.
    """

    items: Annotated[list[Label], Meta(min_length=1, max_length=1_000_000)]
    k: Annotated[int, Meta(ge=1, le=10_000)]
    feedback: Feedback = "full"
    learner: str = "auto"
    options: dict[str, Any] = {}
    constraint: ConstraintConfig | None = None
    rounds: Annotated[int, Meta(ge=1, le=10**15)] | None = None
    bound: Annotated[float, Meta(gt=0, le=1e9)] = 1.0
    share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    measure: Annotated[float, Meta(ge=0, le=0.9)] = 0.3
    holdout: Annotated[float, Meta(ge=0, le=0.5)] = 0.2
    control: list[str] = []
    outcome_wait: Annotated[float, Meta(ge=0, le=WEEK)] = 600.0
    block_size: Annotated[int, Meta(ge=1, le=1 << 16)] | None = None
    warm_start: Annotated[float, Meta(ge=0, le=1)] = 0.5
    sticky: Annotated[float, Meta(ge=0, le=WEEK)] = 0.0
    segments: list[str] = []
    candidates: list[str] = []
    seed: int | None = None

    @property
    def personal(self) -> bool:
        """Whether everybody has a set of their own, from their history and a public model."""
        return self.learner == "PersonalSelector"

    @property
    def queues(self) -> list[str]:
        """The segments, each with blocks of its own; one without a name where there are none."""
        return self.segments or [""]


Port = Annotated[int, Meta(ge=1, le=65535)]


class ServiceSettings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Where a service listens and keeps what it knows; every setting has a default.

    ``store``: ``sqlite:///FILE``, or ``postgresql://...`` for several processes. ``secrets``: the file of
    keys for pseudonyms and decision ids; keep it apart from backups of the store. ``admin_key``: the first
    admin key; else it is read from ``admin_key_file``, or made and written there (by default
    ``discreet.admin-key`` beside the secrets). ``rate``: requests a second of one API key; 0 for no limit.
    ``connections``: how many are open at a time. ``operator_port``: where metrics are, for operators only.
    ``proxies``: addresses of proxies whose word counts for where a request came from. ``telemetry``: where an
    OpenTelemetry collector takes spans (OTLP over HTTP); none sends none. ``origins``: sites whose pages may
    ask with tokens of browsers, such as https://shop.example. ``webhook_networks``: private networks that
    releases may be sent to.
    """

    store: str = "sqlite:///discreet.db"
    secrets: str = "discreet.secrets"
    admin_key: str | None = None
    admin_key_file: str | None = None
    host: str = "127.0.0.1"
    port: Port = 8722
    proxies: str = "127.0.0.1"
    operator_host: str = "127.0.0.1"
    operator_port: Port | None = None
    rate: Annotated[float, Meta(ge=0, le=1e6)] = 2000.0
    connections: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    telemetry: str | None = None
    origins: str = ""
    webhook_networks: str = ""
    log_level: str = "warning"


def read_settings(path: str | os.PathLike[str] | None = None) -> ServiceSettings:
    """The settings of a file, with environment variables such as DISCREET_STORE on top."""
    found = {} if path is None else tomllib.loads(Path(path).read_text())
    for name in ServiceSettings.__struct_fields__:
        if (given := os.environ.get(f"DISCREET_{name.upper()}")) is not None:
            found[name] = given
    try:
        return msgspec.convert(found, ServiceSettings, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"{path or 'the environment'}: {error}") from None


def checked(settings: ServiceSettings) -> ServiceSettings:
    """Settings of which some were given otherwise; refused where one is not what it may be."""
    try:
        return msgspec.convert(msgspec.to_builtins(settings), ServiceSettings)
    except msgspec.ValidationError as error:
        raise ValueError(str(error).replace("`$.", "`--")) from None
