"""Transfers of a step: anchors, input settings and `DataFlow`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tensorflow_ipu.frontends.common.enums import (
    AnchorReturnTypeId,
    ExchangeStrategy,
    ReplicatedStreamMode,
    TileSet,
)
from tensorflow_ipu.frontends.popart.errors import add_note, popart_exception
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo

_NO_PERIOD = "A return period should not be supplied for this anchor return type"
_NAMES = {member.name.upper(): member for member in AnchorReturnTypeId}


def _checked_period(kind: AnchorReturnTypeId, period: Any) -> int | None:
    """Returns the period of an anchor, if it fits its kind."""
    if kind is AnchorReturnTypeId.EveryN:
        if period is None:
            raise popart_exception("Must specify return period with option 'EVERYN'")
        if period <= 0:
            raise popart_exception("Anchor return period must be greater than zero")
        return int(period)
    if period is not None:
        raise popart_exception(_NO_PERIOD)
    return None


class AnchorReturnType:
    """Rule for the values of an anchor that come to the host."""

    def __init__(
        self,
        artString: str,
        returnPeriod: Any = None,
        tileSet: Any = TileSet.Compute,
        exchangeStrategy: ExchangeStrategy = ExchangeStrategy.JustInTime,
    ) -> None:
        """Takes the kind of anchor.

        Args:
            artString: "All", "Final", "Sum" or "EveryN", in any case.
            returnPeriod: for "EveryN", which micro-batches: every so many; for the others it is
                left out.
            tileSet: the tiles that it leaves from.
            exchangeStrategy: when it leaves.

        Raises:
            TypeError: If the kind is no string.
            popart_exception: If the kind is unknown, or the period does not fit it.
        """
        if not isinstance(artString, str):
            raise TypeError(
                "__init__(): incompatible constructor arguments. The following argument types are "
                "supported:\n    1. AnchorReturnType(artString: str, tileSet, exchangeStrategy)\n"
                "    2. AnchorReturnType(artString: str, returnPeriod: int, tileSet, "
                f"exchangeStrategy)\n\nInvoked with: {artString!r}"
            )
        if isinstance(returnPeriod, TileSet):
            strategy = exchangeStrategy if isinstance(tileSet, TileSet) else tileSet
            returnPeriod, tileSet, exchangeStrategy = None, returnPeriod, strategy
        if artString.upper() not in _NAMES:
            error = popart_exception(f"Invalid anchor return type ID supplied: {artString}")
            names = ", ".join(member.name for member in AnchorReturnTypeId)
            add_note(error, f"Expected one of: {names}.")
            raise error
        self._id = _NAMES[artString.upper()]
        self._period = _checked_period(self._id, returnPeriod)
        self._tile_set = tileSet
        self._exchange_strategy = exchangeStrategy

    def __repr__(self) -> str:
        period = f", {self._period}" if self._period else ""
        return f'AnchorReturnType("{self._id.name}"{period})'

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnchorReturnType) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self._id, self._period))

    def id(self) -> AnchorReturnTypeId:
        """Returns the kind."""
        return self._id

    def rp(self) -> int:
        """Returns the period.

        Raises:
            popart_exception: If the kind has none.
        """
        if self._period is None:
            raise popart_exception(_NO_PERIOD)
        return self._period

    def tileSet(self) -> TileSet:
        """Returns the tiles that it leaves from."""
        return self._tile_set

    def exchangeStrategy(self) -> ExchangeStrategy:
        """Returns when it leaves."""
        return self._exchange_strategy


class InputSettings:
    """Transfer of an input to the device: tile set, exchange strategy, replicas."""

    def __init__(
        self,
        tileSet: Any = TileSet.Compute,
        exchangeStrategy: ExchangeStrategy = ExchangeStrategy.JustInTime,
        relicatedStreamMode: ReplicatedStreamMode = ReplicatedStreamMode.Replicate,
    ) -> None:
        """Takes the settings.

        Args:
            tileSet: the tiles that it comes to.
            exchangeStrategy: when it comes.
            relicatedStreamMode: whether each replica has data of its own. The name is as in the
                original; it may also be passed first.
        """
        if isinstance(tileSet, ReplicatedStreamMode):
            tileSet, relicatedStreamMode = TileSet.Compute, tileSet
        self._tile_set = tileSet
        self._exchange_strategy = exchangeStrategy
        self._replicated_stream_mode = relicatedStreamMode

    def __repr__(self) -> str:
        return (
            f"InputSettings({self._tile_set.name}, {self._exchange_strategy.name}, "
            f"{self._replicated_stream_mode.name})"
        )

    def tileSet(self) -> TileSet:
        """Returns the tiles that it comes to."""
        return self._tile_set

    def exchangeStrategy(self) -> ExchangeStrategy:
        """Returns when it comes."""
        return self._exchange_strategy

    def replicatedStreamMode(self) -> ReplicatedStreamMode:
        """Returns whether each replica has data of its own."""
        return self._replicated_stream_mode


class DataFlow:
    """Batches of one step, and the tensors that come to the host."""

    def __init__(
        self,
        batchesPerStep: int = 0,
        anchorTensors: Mapping[str, AnchorReturnType] | Iterable[str] = (),
        anchorReturnType: AnchorReturnType = AnchorReturnType("All"),
        *,
        anchorIds: Iterable[str] | None = None,
    ) -> None:
        """Takes the number of batches and the anchors.

        Args:
            batchesPerStep: batches in one step.
            anchorTensors: which values of each tensor come to the host; or tensors, for which
                `anchorReturnType` says so.
            anchorReturnType: for all tensors, if there is no mapping.
            anchorIds: another name for `anchorTensors`, if there is no mapping.

        Raises:
            TypeError: If arguments are of other types.
            popart_exception: If the number is not positive, or periods do not fit it.
        """
        if anchorIds is not None:
            anchorTensors = anchorIds
        if not isinstance(anchorTensors, Mapping):
            anchorTensors = dict.fromkeys(anchorTensors, anchorReturnType)
        are_kinds = all(isinstance(kind, AnchorReturnType) for kind in anchorTensors.values())
        if not isinstance(batchesPerStep, int) or not are_kinds:
            raise TypeError(
                "DataFlow(): incompatible function arguments. Expected a number of batches, and "
                "tensors or a dict of tensors and AnchorReturnType; received "
                f"{batchesPerStep!r}, {anchorTensors!r}."
            )
        self._anchors = dict(sorted(anchorTensors.items()))
        self.setBatchesPerStep(batchesPerStep)

    def __repr__(self) -> str:
        return f"DataFlow({self._batches}, {self._anchors})"

    def anchors(self) -> list[str]:
        """Returns the anchors in the order of their names."""
        return list(self._anchors)

    def nAnchors(self) -> int:
        """Returns the number of anchors."""
        return len(self._anchors)

    def isAnchored(self, arg0: str) -> bool:
        """Returns whether a tensor comes to the host.

        Args:
            arg0: its name.
        """
        return arg0 in self._anchors

    def art(self, arg0: str) -> AnchorReturnType:
        """Returns the rule for the values of a tensor that come to the host.

        Args:
            arg0: its name.

        Raises:
            popart_exception: If it is not anchored.
        """
        if arg0 not in self._anchors:
            raise popart_exception(
                f"Tensor {arg0} is not an anchor. Anchors: {', '.join(self._anchors) or 'none'}."
            )
        return self._anchors[arg0]

    def batchesPerStep(self) -> int:
        """Returns the number of batches in one step."""
        return self._batches

    def setBatchesPerStep(self, arg0: int) -> None:
        """Changes the number of batches in one step.

        Args:
            arg0: the number.

        Raises:
            popart_exception: If it is not positive, or periods do not fit it.
        """
        if arg0 <= 0:
            raise popart_exception(
                f"'Batches per step' must be greater than zero. Received: {arg0}"
            )
        for name, anchor in self._anchors.items():
            _check_period(name, anchor, arg0)
        self._batches = int(arg0)


def _check_period(name: str, anchor: AnchorReturnType, batches: int) -> None:
    """Refuses a period that does not fit the number of batches."""
    if anchor.id() is not AnchorReturnTypeId.EveryN:
        return
    told = f"anchor {name}: period {anchor.rp()}, batches per step {batches}"
    if anchor.rp() > batches:
        raise popart_exception(
            f"Return period must be <= to the number of batches per step ({told})."
        )
    if batches % anchor.rp():
        raise popart_exception(
            f"Return period must be a factor of the number of batches per step ({told})."
        )


def anchor_array(
    flow: DataFlow, name: str, micro: int, replicas: int, info: TensorInfo
) -> np.ndarray:
    """Returns an array for the values of an anchor in one step.

    Args:
        flow: batches and anchors.
        name: the anchor.
        micro: micro-batches of a batch.
        replicas: the number of replicas.
        info: shape and type of the anchor.

    Raises:
        RuntimeError: If the period of the anchor does not divide the batches of a step.
    """
    batches, kind = flow.batchesPerStep(), flow.art(name)
    leading = [batches, micro]
    if kind.id() in (AnchorReturnTypeId.Final, AnchorReturnTypeId.Sum):
        leading = []
    elif kind.id() is AnchorReturnTypeId.EveryN:
        if batches % kind.rp():
            raise RuntimeError(
                f"Invalid anchor period of {name}: {kind.rp()} does not divide the batches per "
                f"step, {batches}."
            )
        leading[0] = batches // kind.rp()
    shape = [size for size in (*leading, replicas) if size != 1] + info.shape()
    return np.empty(shape, info.data_type_lcase())
