"""How well a stream went, looked at afterwards and in the clear."""

from .regret import Bands, Regret, best_fixed_set, regret, regret_bands

__all__ = ["Bands", "Regret", "best_fixed_set", "regret", "regret_bands"]
