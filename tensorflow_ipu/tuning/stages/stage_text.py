"""Text of the layers of stages, with the lines of the program that they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorflow_ipu.tuning.stages.stage_split import Stage

# Layers of a stage that are named; of more, the first and the last are.
_NAMED = 3


def layers(names: Sequence[str]) -> str:
    """Returns the names of some layers, or the ends of a long list of them."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{names[0]} to {names[-1]} ({len(names)} layers)"


def lines(
    word: str, stages: Sequence[Stage], sources: Mapping[str, str] | None = None
) -> list[str]:
    """Returns a line for each stage with its layers.

    Args:
        word: the word for a stage.
        stages: the stages.
        sources: the user's line of each layer, where it is known. The first layer's is shown.
    """
    known = sources or {}
    return [
        f"{word} {index}: {layers(stage.layers)}{_place(known.get(stage.layers[0], ''))}"
        for index, stage in enumerate(stages)
    ]


def _place(source: str) -> str:
    return f", from {source}" if source else ""
