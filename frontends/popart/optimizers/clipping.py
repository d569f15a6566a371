"""`ClipNormSettings`: groups of weights whose gradients are clipped by their common norm."""

from __future__ import annotations

from collections.abc import Iterable

from tensorflow_ipu.configs.notices import warn_once


class ClipNormSettings:
    """A group of weights and the largest norm of their gradients."""

    def __init__(self, weightIds: Iterable[str], maxNorm: float) -> None:
        """Takes the group; `clipWeights` and `clipAllWeights` are newer.

        Args:
            weightIds: the weights.
            maxNorm: the largest norm.
        """
        warn_once(
            "ClipNormSettings(weightIds, maxNorm) is deprecated. Use ClipNormSettings.clipWeights."
        )
        self._set(tuple(weightIds), maxNorm)

    def __repr__(self) -> str:
        weights = "all weights" if self.weights is None else ", ".join(self.weights)
        return f"ClipNormSettings[{weights}: {self.max_norm}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClipNormSettings) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.weights, self.max_norm))

    @staticmethod
    def clipWeights(arg0: list[str], arg1: float) -> ClipNormSettings:
        """Returns settings for some weights.

        Args:
            arg0: the weights.
            arg1: the largest norm.
        """
        made = object.__new__(ClipNormSettings)
        made._set(tuple(arg0), arg1)
        return made

    @staticmethod
    def clipAllWeights(arg0: float) -> ClipNormSettings:
        """Returns settings for all weights.

        Args:
            arg0: the largest norm.
        """
        made = object.__new__(ClipNormSettings)
        made._set(None, arg0)
        return made

    def _set(self, weights: tuple[str, ...] | None, max_norm: float) -> None:
        self.weights = weights
        self.max_norm = float(max_norm)
