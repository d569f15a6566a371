"""Transfers of a step: arrays of the user, inputs and anchors of the program, transfer types."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.api.accumulators import Accumulator
from tensorflow_ipu.feeds.native_feeds import ArrayInfeed, ArrayOutfeed, IPUOutfeedMode, Outfeed
from tensorflow_ipu.frontends.common.enums import AnchorReturnTypeId, DataType, SyntheticDataMode
from tensorflow_ipu.frontends.popart import datatypes
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.errors import popart_runtime_error
from tensorflow_ipu.frontends.popart.onnx_model import Model
from tensorflow_ipu.frontends.popart.stepio import IStepIO
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo
from tensorflow_ipu.util.notices import warn_once

# --- Data of a step ---

_KINDS = AnchorReturnTypeId


@dataclasses.dataclass(frozen=True)
class TransferPlan:
    """Sizes and types of the data of a step.

    Attributes:
        model: The model.
        flow: Batches and anchors.
        accumulation: Micro-batches of a batch.
        replicas: Number of replicas.
        infos: Shape and type of each tensor.
    """

    model: Model
    flow: DataFlow
    accumulation: int
    replicas: int
    infos: Mapping[str, TensorInfo]

    def samples_of(self, name: str) -> int:
        """Returns the number of samples of an input in a step.

        Args:
            name: the input.
        """
        count = self.flow.batchesPerStep() * self.accumulation
        return count if name in self.model.broadcast else count * self.replicas


def read(plan: TransferPlan, stepio: IStepIO) -> dict[str, np.ndarray]:
    """Returns the samples of each input, replica by replica in each micro-batch.

    Args:
        plan: sizes and types of the data of the step.
        stepio: where they are.

    Raises:
        popart_runtime_error: If they are missing, or of another type.
    """
    samples = {}
    for name, info in plan.model.used_inputs.items():
        array = stepio.read(name, plan.samples_of(name), tuple(info.shape()))
        array = _typed(name, array, info)
        if name in plan.model.broadcast:
            array = np.repeat(array, plan.replicas, 0)
        samples[name] = array
    return samples


def check_sizes(plan: TransferPlan, stepio: Any) -> None:
    """Refuses arrays of other sizes than a step needs; those for no input do not count.

    Args:
        plan: sizes and types of the data of the step.
        stepio: the arrays.

    Raises:
        popart_runtime_error: If there is one.
    """
    flow, micro = plan.flow, plan.accumulation
    said = (
        f"replication factor {plan.replicas}, accumulation factor {micro}, batches per step "
        f"{flow.batchesPerStep()}"
    )
    used = plan.model.used_inputs
    for name, array in stepio.inputs.items():
        if name in used:
            expected = used[name].nelms() * plan.samples_of(name)
            _check_size("input", name, expected, array.size, f"{said}, nelms {used[name].nelms()}")
        elif name in plan.model.inputs:
            warn_once(f"The input {name} does not appear in the optimized PopART Ir.")
    for name, array in stepio.outputs.items():
        if not flow.isAnchored(name):
            continue
        total = flow.batchesPerStep() * micro
        kind = flow.art(name)
        parts = {_KINDS.All: 1, _KINDS.EveryN: kind.id() is _KINDS.EveryN and kind.rp()}
        count = total // (parts.get(kind.id()) or total) * plan.replicas
        info = plan.infos.get(name)
        if info is not None:
            told = f"{said}, nelms {info.nelms()}, return type {kind.id().name}"
            _check_size("output", name, info.nelms() * count, array.size, told)


def _check_size(told: str, name: str, expected: int, received: int, said: str) -> None:
    if expected != received:
        raise popart_runtime_error(
            f"Unexpected number of {told} elements for Tensor {name}. Expected {expected}, but "
            f"received {received} ({said})."
        )


def _typed(name: str, array: np.ndarray, info: TensorInfo) -> np.ndarray:
    """Returns data of an input in its type: INT64 is narrowed to INT32."""
    given, wanted = datatypes.of_data(array).member, info.dataType()
    if given is wanted:
        return array
    if (given, wanted) == (DataType.INT64, DataType.INT32):
        warn_once(f"The data for tensor {name} is INT64, and is narrowed to INT32.")
        return array.astype(np.int32)
    raise popart_runtime_error(
        f"Type discrepancy for tensor {name}. User provided : {given.name} and expected : "
        f"{wanted.name}"
    )


# --- Inputs, anchors and transfer types ---


def to_host(array: np.ndarray, type_: datatypes.Type) -> np.ndarray:
    """Casts host data to its transfer type; integers of 64 bits wrap.

    Args:
        array: the data.
        type_: its type.
    """
    if type_.numpy is np.uint32:
        return array.view(np.int32)
    return array.astype(type_.carrier, copy=False)


def from_device(tensor: Any, type_: datatypes.Type) -> Any:
    """Casts a tensor of a feed from its transfer type to its own type.

    Args:
        tensor: the tensor that came.
        type_: its type.
    """
    if type_.tf is tf.uint32:
        return tf.bitcast(tensor, tf.uint32)
    if type_.tf is tf.uint64:
        return tf.cast(tf.bitcast(tensor, tf.uint32), tf.uint64)
    return tensor if tensor.dtype == type_.tf else tf.cast(tensor, type_.tf)


def to_carrier(tensor: Any) -> Any:
    """Casts a tensor of a program to its transfer type.

    Args:
        tensor: the tensor.
    """
    type_ = datatypes.of_tf(tensor.dtype)
    if type_.tf is tf.uint32:
        return tf.bitcast(tensor, tf.int32)
    if type_.tf is tf.uint64:
        return tf.bitcast(tf.cast(tensor, tf.uint32), tf.int32)
    carrier = tf.as_dtype(type_.carrier)
    return tensor if tensor.dtype == carrier else tf.cast(tensor, carrier)


def from_carrier(array: np.ndarray, type_: datatypes.Type) -> np.ndarray:
    """Casts samples of the device from their transfer type to the host's type.

    Args:
        array: the samples in their transfer type.
        type_: its type.
    """
    if type_.numpy in (np.uint32, np.uint64):
        array = array.view(np.uint32)
    return array.astype(type_.numpy, copy=False)


class Inputs:
    """The inputs that a program reads."""

    def __init__(
        self,
        infos: Mapping[str, TensorInfo],
        ordinal: int,
        synthetic: SyntheticDataMode = SyntheticDataMode.Off,
    ) -> None:
        """Makes the feed, unless there are no inputs.

        Args:
            infos: shape and type of each input.
            ordinal: of the TensorFlow device.
            synthetic: kind of synthetic data, which replaces data of the host.
        """
        self._infos = infos
        self._synthetic = synthetic
        self._types = {name: datatypes.of_member(info.dataType()) for name, info in infos.items()}
        self._feed: ArrayInfeed | None = None
        # Feeds send no empty tensors.
        self._sent = [name for name, info in infos.items() if info.nelms()]
        if self._sent and synthetic is SyntheticDataMode.Off:
            specs = [
                tf.TensorSpec(infos[name].shape(), self._types[name].carrier) for name in self._sent
            ]
            self._feed = ArrayInfeed(specs, ordinal)

    def read(self) -> dict[str, Any]:
        """Adds the reading of one sample of each input.

        Returns:
            The tensors by input.
        """
        if self._synthetic is not SyntheticDataMode.Off:
            return self._made_up()
        empty = {
            name: tf.zeros(info.shape(), self._types[name].tf)
            for name, info in self._infos.items()
            if not info.nelms()
        }
        if self._feed is None:
            return empty
        read = zip(self._sent, self._feed.dequeue())
        return {
            **empty,
            **{name: from_device(tensor, self._types[name]) for name, tensor in read},
        }

    def _made_up(self) -> dict[str, Any]:
        """Returns data that nobody sent, the same in each micro-batch."""
        found = {}
        for number, (name, info) in enumerate(self._infos.items()):
            random = np.random.RandomState(number)
            dtype = np.dtype(self._types[name].numpy)
            values = np.zeros(info.shape())
            if self._synthetic is SyntheticDataMode.RandomNormal:
                values = random.standard_normal(info.shape())
            elif self._synthetic is SyntheticDataMode.RandomUniform:
                values = _uniform(random, info.shape(), dtype)
            found[name] = tf.constant(values.astype(dtype))
        return found

    def start(self, samples: Mapping[str, np.ndarray]) -> None:
        """Gives the feed the data of one run.

        Args:
            samples: for each input its samples, replica by replica in each micro-batch.
        """
        if self._feed is not None:
            arrays = [
                np.ascontiguousarray(to_host(samples[name], self._types[name]))
                for name in self._sent
            ]
            self._feed.fill(len(arrays[0]), arrays)


def _uniform(random: np.random.RandomState, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Returns numbers from all of an integer type's range, half of booleans true, or below 1."""
    if dtype.kind not in "iub":
        return random.uniform(size=shape)
    if dtype.kind == "b":
        return random.uniform(size=shape) < 0.5
    limits = np.iinfo(dtype)
    least = limits.min + 1 if dtype.kind == "i" else 0  # as far below zero as above
    return np.random.default_rng(0).integers(least, limits.max, shape, dtype, endpoint=True)


_FINAL, _EVERY_N, _SUM = (
    AnchorReturnTypeId.Final,
    AnchorReturnTypeId.EveryN,
    AnchorReturnTypeId.Sum,
)


class Anchors:
    """The anchors of a program, each with a feed of its own.

    Attributes:
        types: The type of each anchor, by id; known when the program is built.
        shapes: The shape of each.
    """

    def __init__(
        self, data_flow: DataFlow, ordinal: int, micro_batches: int, replicas: int
    ) -> None:
        """Makes the feeds.

        Args:
            data_flow: batches and anchors.
            ordinal: of the TensorFlow device.
            micro_batches: micro-batches of a run, for each replica.
            replicas: number of replicas.
        """
        self._data_flow = data_flow
        self._micro_batches, self._replicas = micro_batches, replicas
        self._feeds = {name: self._feed(name, ordinal) for name in data_flow.anchors()}
        self._sums: dict[str, Accumulator] = {}
        self.types: dict[str, datatypes.Type] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}

    def begin(self, infos: Mapping[str, TensorInfo]) -> None:
        """Makes the sums, in the function around all loops.

        Args:
            infos: shape and type of each tensor.
        """
        for position, name in enumerate(self._data_flow.anchors()):
            if self._data_flow.art(name).id() is _SUM and infos[name].nelms():
                type_ = datatypes.of_member(infos[name].dataType()).tf
                total = type_ if type_.is_floating else tf.int32
                shape = infos[name].shape()
                self._sums[name] = Accumulator(shape, total, f"anchor_sum_{position}")

    def send(self, name: str, tensor: Any, number: Any) -> Any:
        """Adds the sending of an anchor's value in one micro-batch.

        Args:
            name: the anchor.
            tensor: its value.
            number: number of the micro-batch in the step, from 0: a scalar tensor.

        Returns:
            The operation.
        """
        self.types[name] = datatypes.of_tf(tensor.dtype)
        self.shapes[name] = tuple(tensor.shape)
        kind = self._data_flow.art(name)
        if not tensor.shape.num_elements():  # feeds send no empty tensors
            return tf.no_op()
        if kind.id() is _SUM:
            return self._sums[name].add(tensor)
        feed, carried = self._feeds[name], to_carrier(tensor)
        if kind.id() is not _EVERY_N:
            return feed.enqueue(carried)

        def enqueue() -> Any:
            with tf.control_dependencies([feed.enqueue(carried)]):
                return tf.constant(True)

        is_wanted = tf.equal((number + 1) % kind.rp(), 0)
        return tf.cond(is_wanted, enqueue, lambda: tf.constant(False)).op

    def send_sums(self) -> list[Any]:
        """Adds the sending of sums after the last micro-batch.

        Returns:
            The operations.
        """
        return [
            self._feeds[name].enqueue(to_carrier(tf.cast(total.value(), self.types[name].tf)))
            for name, total in self._sums.items()
        ]

    def take(self) -> Mapping[str, np.ndarray]:
        """Returns the samples that one run has sent.

        Returns:
            For each anchor its samples along the first dimension: micro-batch by micro-batch, and
            replica by replica in each.
        """
        return {
            name: from_carrier(self._taken(name, feed), self.types[name])
            for name, feed in self._feeds.items()
        }

    def drop(self) -> None:
        """Removes the samples of a run that ended with an error."""
        for feed in self._feeds.values():
            if isinstance(feed, ArrayOutfeed):
                feed.drop()
                continue
            with contextlib.suppress(tf.errors.OpError):
                _dequeued(feed)

    def _feed(self, name: str, ordinal: int) -> Outfeed:
        """Returns the feed of an anchor, which keeps the samples to return."""
        if self._data_flow.art(name).id() is _FINAL:
            return Outfeed(ordinal, IPUOutfeedMode.LAST)
        return ArrayOutfeed(ordinal)

    def _taken(self, name: str, feed: Outfeed) -> np.ndarray:
        """Returns the samples of an anchor in their transfer type."""
        if 0 in self.shapes[name]:
            return np.empty((self._replicas, *self.shapes[name]), self.types[name].carrier)
        if not isinstance(feed, ArrayOutfeed):
            return _dequeued(feed).reshape(-1, *self.shapes[name])
        kind, count = self._data_flow.art(name), self._micro_batches
        if kind.id() is not AnchorReturnTypeId.All:
            count = 1 if kind.id() is _SUM else count // kind.rp()
        shape = (count * self._replicas, *self.shapes[name])
        samples = np.empty(shape, self.types[name].carrier)
        feed.take(count, [samples])
        return samples


def _dequeued(feed: Outfeed) -> np.ndarray:
    """Returns all that a feed of one tensor has."""
    found = feed.dequeue(False)
    tensor = found[0] if isinstance(found, (list, tuple)) else found
    return np.asarray(tensor.numpy())
