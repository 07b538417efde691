"""Normal beliefs about what items are worth, learned from noisy sums that have been released.

Nothing here sees a person: values are released ones, draws are made with public coins.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import backends
from ...core.state import Saved

Floats = NDArray[np.float64]
Features = NDArray[np.int64]


class Posterior(ABC):
    """A normal distribution of one weight per feature; a value is the sum of the weights of its features."""

    def __init__(self, mean: Floats) -> None:
        self.mean = mean

    @abstractmethod
    def observe(self, features: Features, value: float, variance: float) -> None:
        """Take up a released value of these features, with the variance of its error."""

    @abstractmethod
    def draw(self, generator: np.random.Generator, spread: float) -> Floats:
        """Weights at random: the mean, and ``spread`` times what is not known."""

    @abstractmethod
    def grow(self, more: int, mean: float, deviation: float) -> None:
        """More weights, of which nothing is known but this."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `resumed`."""


class Independent(Posterior):
    """Every weight on its own: one variance each, so that an observation costs as much as it has features."""

    def __init__(self, mean: Floats, variance: Floats) -> None:
        super().__init__(mean)
        self.variance = variance

    def observe(self, features: Features, value: float, variance: float) -> None:
        """What a sum tells about each of its weights; how they go together is left out."""
        before, mean = self.variance[features], self.mean[features]
        share = before / (before.sum() + variance)
        self.mean[features] = mean + share * (value - mean.sum())
        self.variance[features] = before - share * before

    def observe_each(self, features: Features, values: Floats, variance: float) -> None:
        """A released value of every feature."""
        before, mean = self.variance[features], self.mean[features]
        share = before / (before + variance)
        self.mean[features] = mean + share * (values - mean)
        self.variance[features] = before - share * before

    def widen(self, amount: float, most: float) -> None:
        """What was learned grows old: more variance, up to the one from before anything was."""
        np.minimum(self.variance + amount, most, out=self.variance)

    def draw(self, generator: np.random.Generator, spread: float) -> Floats:
        noise = generator.standard_normal(self.mean.size)
        return np.asarray(self.mean + spread * np.sqrt(self.variance) * noise)

    def grow(self, more: int, mean: float, deviation: float) -> None:
        self.mean = np.concatenate((self.mean, np.full(more, mean)))
        self.variance = np.concatenate((self.variance, np.full(more, deviation**2)))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {"mean": self.mean, "variance": self.variance}

    @classmethod
    def resumed(cls, saved: Saved, size: int) -> Independent:
        """The belief that gave ``saved``."""
        return cls(saved.array("mean", (size,)), saved.array("variance", (size,), at_least=0.0))


class Joint(Posterior):
    """All weights together: ``root`` times its transpose is their covariance.

    An observation changes the root by one outer product (Potter's square-root form of the Kalman filter), so
    that neither it nor a draw needs a decomposition. In single precision, which is far finer than the noise
    on what is observed, and takes half the time.
    """

    def __init__(self, mean: Floats, root: NDArray[Any]) -> None:
        super().__init__(mean)
        self.root: NDArray[np.float32] = root.astype(np.float32)

    def observe(self, features: Features, value: float, variance: float) -> None:
        along = self.root[features].sum(axis=0)
        total = float(along @ along) + variance
        towards = self.root @ along
        self.mean += towards * ((value - float(self.mean[features].sum())) / total)
        shrunk = along / np.float32(total * (1.0 + math.sqrt(variance / total)))
        backends.bandit.take_outer(self.root, towards, shrunk)

    def draw(self, generator: np.random.Generator, spread: float) -> Floats:
        noise = self.root @ generator.standard_normal(self.mean.size, dtype=np.float32)
        return np.asarray(self.mean + spread * noise)

    def grow(self, more: int, mean: float, deviation: float) -> None:
        self.mean = np.concatenate((self.mean, np.full(more, mean)))
        size = self.mean.size
        root = np.zeros((size, size), dtype=np.float32)
        root[:-more, :-more] = self.root
        root[range(size - more, size), range(size - more, size)] = deviation
        self.root = root

    def apart(self) -> Independent:
        """The same beliefs, each on its own."""
        return Independent(self.mean, np.square(self.root.astype(np.float64)).sum(axis=1))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {"mean": self.mean, "root": self.root}

    @classmethod
    def resumed(cls, saved: Saved, size: int) -> Joint:
        """The belief that gave ``saved``."""
        return cls(saved.array("mean", (size,)), saved.array("root", (size, size), np.float32))


def root_of(own: float, common: float, size: int) -> Floats:
    """The symmetric root of own^2 on the diagonal and common^2 everywhere."""
    shift = (math.sqrt(own * own + size * common * common) - own) / size
    return own * np.eye(size) + shift
