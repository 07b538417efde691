"""Configurations of experiments and populations, and the settings of a service, with validation."""

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
# Text that can be shown, and stored in any database.
_PRINTABLE = r"^[^\x00-\x1f\x7f]*$(?!\n)"  # for Python "$" is also before a last line break
ShortText = Annotated[str, Meta(min_length=1, max_length=100, pattern=_PRINTABLE)]
Label = Annotated[str, Meta(min_length=1, max_length=512, pattern=_PRINTABLE)]
Epsilon = Annotated[float, Meta(gt=0, le=1e6)]
WEEK = 7 * 86400.0  # seconds
# The field of an outcome that is sent, by feedback.
OUTCOMES: dict[Feedback, str] = {"full": "likes", "slots": "taken", "bandit": "value"}


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A configuration that the database stores as JSON."""

    @classmethod
    def read(cls, text: str) -> Self:
        return msgspec.json.decode(text, type=cls)

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class PopulationConfig(Stored, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """People with one budget per period, for all experiments about them.

    ``neighbours``: neighbouring inputs differ in one person's outcomes, which are replaced by any others
    ("replace") or left out ("add_remove"). Which decisions there are, and for whom, is public under both.
    ``anonymous``: decisions need not say whom they are for. ``max_rounds_per_person`` is then a declaration,
    which is not enforced.
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
    """An experiment: chooses ``k`` of these ``items`` for each visitor.

    ``feedback`` is what is known of a person after a decision: "full" (all items that they would take,
    whatever was shown), "slots" (which of the shown items was taken, or none) or "bandit" (the value of the
    set, from 0 to ``bound``). An outcome names what it holds: `OUTCOMES`. ``share`` is the part of the
    population's budget, and ``measure`` the part of that for the released shares of people served.
    ``outcome_wait`` seconds after its block is over, a decision without an outcome counts as "took nothing".
    ``holdout`` is the part of decisions that show ``control``, a set to compare with, or random sets if that
    is empty. ``block_size`` is how many decisions are allocated at a time; by default, as many as arrive in a
    few seconds. Within each interval of ``sticky`` seconds, a person gets the same set again. ``segments``
    are the values of a public attribute, such as countries: each has its own learner, and every decision
    names one. ``candidates``, if given, are the only items that can be shown: a public list with the best
    first, which is shown until the first release. The next period has no other items. ``seed`` is for tests:
    anyone who knows it can undo the noise, and the account says so.
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
        """Whether each person gets their own set, from their history and a public model."""
        return self.learner == "PersonalSelector"

    @property
    def queues(self) -> list[str]:
        """The segments, each with its own blocks; a single "" if there are none."""
        return self.segments or [""]


Port = Annotated[int, Meta(ge=1, le=65535)]


class ServiceSettings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The addresses, files and limits of a service; every setting has a default.

    ``store``: ``sqlite:///FILE``, or ``postgresql://...`` for several processes. ``secrets``: the file of
    keys for pseudonyms and decision ids; keep it apart from backups of the store. ``admin_key``: the first
    admin key; else it is read from ``admin_key_file``, or made and written there (by default
    ``discreet.admin-key`` beside the secrets). ``rate``: requests per second of one API key; 0 for no limit.
    ``connections``: how many may be open at a time. ``operator_port``: the port of metrics, for operators
    only. ``proxies``: addresses of proxies whose forwarded client addresses are trusted. ``telemetry``: the
    URL of an OpenTelemetry collector for spans (OTLP over HTTP), if any. ``origins``: sites whose pages may
    use browser tokens, such as https://shop.example. ``webhook_networks``: private networks to send to.
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
    """The settings of a file; environment variables such as DISCREET_STORE override them."""
    found = {} if path is None else tomllib.loads(Path(path).read_text())
    for name in ServiceSettings.__struct_fields__:
        if (given := os.environ.get(f"DISCREET_{name.upper()}")) is not None:
            found[name] = given
    try:
        return msgspec.convert(found, ServiceSettings, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"{path or 'the environment'}: {error}") from None


def checked(settings: ServiceSettings) -> ServiceSettings:
    """Validate settings of which some were set in code."""
    try:
        return msgspec.convert(msgspec.to_builtins(settings), ServiceSettings)
    except msgspec.ValidationError as error:
        raise ValueError(str(error).replace("`$.", "`--")) from None
