"""`ClipNormSettings`: groups of weights whose gradients are clipped by their common norm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.util.notices import warn_once


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


def groups_of(
    settings: Sequence[ClipNormSettings], trained: Sequence[str]
) -> list[tuple[tuple[str, ...], float]]:
    """Returns the weights of each group, and the largest norm of their gradients.

    Args:
        settings: the groups.
        trained: the weights that are updated.

    Raises:
        popart_exception: If a group has a weight that is not updated, or all weights are clipped
            together and some again.
    """
    if len(settings) > 1 and any(group.weights is None for group in settings):
        raise popart_exception(
            "Multiple clip groups specified, and one of them has all weights. Pass either "
            "clipAllWeights or groups made by clipWeights."
        )
    found = []
    for group in settings:
        weights = tuple(trained) if group.weights is None else group.weights
        for weight in weights:
            if weight not in trained:
                raise popart_exception(
                    f"Could not find a varupdate op for tensor {weight}, whose gradient is to be "
                    f"clipped. Weights that are updated: {', '.join(trained) or 'none'}."
                )
        found.append((weights, group.max_norm))
    return found
