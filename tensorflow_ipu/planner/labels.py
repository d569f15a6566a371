"""The label (exact, modelled, assumed) of a sum of labelled numbers."""

from __future__ import annotations

from collections.abc import Mapping

from tensorflow_ipu.costs.label import Label


def median_label(by_label: Mapping[Label, float]) -> Label:
    """Returns the median label of some cycles.

    Args:
        by_label: cycles by label.
    """
    total = sum(by_label.values())
    worse = 0.0
    for label in reversed(tuple(Label)):
        worse += by_label.get(label, 0.0)
        if worse and 2 * worse >= total:
            return label
    return Label.EXACT
