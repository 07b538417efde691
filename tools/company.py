"""One person's numbers on a device, alone and in any company: they must be the same, bit for bit.

    python -m tools.company             (torch, on its first GPU where it has one)
    python -m tools.company numpy       (or cupy)

What `tests/objectives/test_company.py` asks of the libraries that are installed for tests, for a machine that
has a GPU and no more than torch (or CuPy), array-api-compat and Triton: more rows, which other kernels sum
up, and vectors whose bytes tell the last digit of their length. Prints what it looked at, and ends with an
error where anything differs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from discreet.objectives import (
    ConcaveOverModular,
    EmbeddedFacilityLocation,
    FacilityLocation,
    LogDeterminant,
    Population,
    ProbabilisticCoverage,
)
from discreet.objectives.devices import Device, device_of
from discreet.objectives.fixed_point import FixedPointGains, step
from discreet.offline.continuous import SummedGradient
from discreet.privacy import PublicRandomness

ITEMS, PICKS = 40, (4, 0, 17)
COUNTS = (1, 2, 15, 16, 17, 127, 128, 129, 1000, 4194, 70_000)
WIDTHS = (3, 64, 130, 1000, 2000)
# Of a hostile review: 16 such people together had other bytes than 15, and added 14 to a score of bound 1.
KNOWN = (1000, 0.31183145201048545, 8.09543081003105)


def kernel() -> np.ndarray:
    features = np.random.default_rng(3).normal(size=(ITEMS, 6))
    return features @ features.T / 6


FAMILIES: dict[str, Callable[..., Population]] = {
    "chances": ProbabilisticCoverage.from_array,
    "facility location": FacilityLocation.from_array,
    "square roots": lambda a, **o: ConcaveOverModular.from_array(a, concave="sqrt", bound=7, **o),
    "logarithms": lambda a, **o: ConcaveOverModular.from_array(a, concave="log", bound=4, **o),
    "caps": lambda a, **o: ConcaveOverModular.from_array(a, concave="capped", cap=1.7, bound=2, **o),
    "log-determinants": lambda a, **o: LogDeterminant(kernel(), a, bound=60, **o),
    "embeddings": lambda a, **o: EmbeddedFacilityLocation(a, kernel(), normalize=True, **o),
}


def layouts(device: Device, rows: np.ndarray) -> Iterator[tuple[str, Any]]:
    """The same numbers on the device, in several orders and places."""
    xp = device.xp
    yield "rows", device.array(rows, "float64")
    yield "columns", xp.matrix_transpose(device.array(np.ascontiguousarray(rows.T), "float64"))
    wide = np.zeros((rows.shape[0], 2 * rows.shape[1] + 1))
    wide[:, 1::2] = rows
    yield "gaps and an offset", device.array(wide, "float64")[:, 1::2]


def scores(people: Population, unit: float) -> np.ndarray:
    """What selectors make of these people: sums of whole steps."""
    growing, found = FixedPointGains.over(people, people.bound, unit), []
    for item in PICKS:
        found.append(growing.scores())
        growing.add(item)
    found.append(growing.scores())
    gradient = SummedGradient(people, people.bound, 2, PublicRandomness.seeded(3), 1 << 20)
    found.append(gradient.scores(gradient.at(np.linspace(0.0, 1.0, people.n_items))))
    return np.concatenate(found)


def unlucky(width: int) -> list[tuple[float, float]]:
    """Entries and scales for which rounding to bytes tells the last digit of a vector's length."""
    found = [KNOWN[1:]] if width == KNOWN[0] else []
    for entry in np.random.default_rng(width).random(8).tolist():
        value = entry / math.sqrt(math.fsum([entry * entry] * width))
        near = (np.nextafter(value, 0.0), value, np.nextafter(value, 1.0))
        found += [(entry, 256.0 * one) for one in near]
    return found


def bytes_differ(device: Device) -> int:
    """How many times somebody's bytes depended on who else was there."""
    wrong = looked = 0
    for width in WIDTHS:
        items = np.eye(1, width)
        for entry, scale in unlucky(width):
            seen = set()
            for count in COUNTS[: -1 if width > 1000 else None]:
                if count * width > 1 << 23:
                    continue
                rows = np.random.default_rng(count).normal(size=(count, width))
                rows[count // 2 :] = entry
                for _, given in layouts(device, rows):
                    people = EmbeddedFacilityLocation(
                        given, items, scale=scale, normalize=True, bound=4.0, backend=device
                    )
                    own = device.numpy(people._rows.people)[count // 2 :]
                    seen |= set(np.unique(own).tolist())
                    looked += 1
            wrong += len(seen) > 1
    print(f"bytes of normalized vectors: {looked:,} populations, {wrong} people's bytes depended on others")
    return wrong


def scores_differ(device: Device) -> int:
    wrong = 0
    for name, make in FAMILIES.items():
        crowd = np.random.default_rng(11).random((max(COUNTS) + 1, ITEMS))

        def people(given: Any, make: Callable[..., Population] = make) -> Population:
            return make(given, backend=device)

        alone = people(device.array(crowd[-1:], "float64"))
        unit = step(alone.bound, 1 << 20)
        own, differ, looked = scores(alone, unit), 0, 0
        for count in COUNTS if name != "log-determinants" else COUNTS[:-1]:
            within = np.vstack((crowd[:count], crowd[-1:]))
            both = (layouts(device, crowd[:count]), layouts(device, within))
            for (_, few), (_, more) in zip(*both, strict=True):
                moved = scores(people(more), unit) - scores(people(few), unit)
                differ += bool((moved != own).any())
                looked += 1
        print(f"{name}: {looked} newcomers, {differ} moved a score by other than their own part")
        wrong += differ
    return wrong


def main() -> int:
    device = device_of(sys.argv[1] if len(sys.argv) > 1 else "torch")
    print(f"{device.name} on {device.described}")
    wrong = bytes_differ(device) + scores_differ(device)
    print("nothing differs" if not wrong else f"{wrong} DIFFER")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
