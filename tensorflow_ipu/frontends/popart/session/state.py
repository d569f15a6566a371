"""`HostWeights` and `RandomState`: weights, optimizer state, seed and generators of a session."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from onnx import helper
from tensorflow.python.eager import context as eager_context

from tensorflow_ipu.distributed import transport
from tensorflow_ipu.frontends.common import abstract_arrays
from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.popart import onnx_files
from tensorflow_ipu.frontends.popart.errors import popart_internal_exception, popart_runtime_error
from tensorflow_ipu.frontends.popart.lowering.programs import SEED
from tensorflow_ipu.frontends.popart.lowering.training import ACCUMULATOR
from tensorflow_ipu.frontends.popart.session.setup import Setup
from tensorflow_ipu.frontends.popart.stepio import IWeightsIO
from tensorflow_ipu.runtime import native
from tensorflow_ipu.util import private_files

# --- `HostWeights`: the host's values of weights and optimizer state, and their transfers ---


class HostWeights:
    """The host's values of weights and optimizer state.

    Attributes:
        values: The values by id: weights, then the state of the optimizer.
        must_upload: Whether the device lacks these values.
        is_in_sync: Whether host and device have the same values.
    """

    def __init__(self, setup: Setup) -> None:
        """Copies the values at the start.

        Args:
            setup: model, options and replicas.
        """
        copied = not abstract_arrays.plans_only()
        self.values = {
            name: np.array(value) if copied else value for name, value in setup.values.items()
        }
        self.must_upload = True
        self.is_in_sync = True
        self._streamed = setup.streamed
        # The group of each replica, for weights that all replicas return.
        self._returned = {
            name: groups
            for name in setup.model.weights
            if (groups := setup.model.returning(name, setup.total_replicas)) is not None
        }

    def __repr__(self) -> str:
        return f"HostWeights[{len(self.values)}]"

    def upload(self, variables: Mapping[str, tf.Variable]) -> None:
        """Brings the values to the device.

        Args:
            variables: the variables of the program, by id.
        """
        streamed = () if abstract_arrays.plans_only() else self._streamed
        with eager_context.eager_mode():
            for name in streamed:
                variables[name].assign(self.values[name])
        self.must_upload = False
        self.is_in_sync = True

    def download(self, variables: Mapping[str, tf.Variable]) -> None:
        """Brings the device's values to the host.

        Args:
            variables: the variables of the program, by id.
        """
        with eager_context.eager_mode():
            for name in self._streamed:
                self.values[name][...] = variables[name].numpy()
        self.is_in_sync = True

    def broadcast(self, rank: int) -> None:
        """Gives the values of one process to all.

        Args:
            rank: number of the process.
        """
        if transport.count() > 1:
            with eager_context.eager_mode():
                for name, value in self.values.items():
                    meeting = f"popart_weights_{name}"
                    value[...] = transport.from_instance(tf.constant(value), rank, meeting).numpy()

    def read(self, weights: IWeightsIO) -> None:
        """Writes the values into the user's arrays.

        Args:
            weights: the arrays; arrays of unknown weights do not change.

        Raises:
            popart_runtime_error: If an array has another size.
        """
        for name, target in weights.weights.items():
            if name not in self.values:
                continue
            value = self._read(name)
            if target.nbytes != value.nbytes:
                raise popart_runtime_error(
                    f"The sizes (in bytes) of src and dst for tensor {name} differ: {value.nbytes} "
                    f"and {target.nbytes}. It is {value.dtype} of the shape {list(value.shape)}."
                )
            target.reshape(-1)[:] = value.reshape(-1).view(target.dtype)

    def _read(self, name: str) -> np.ndarray:
        """Returns a value in the layout that users read."""
        value, groups = self.values[name], self._returned.get(name)
        if groups is None:
            return value
        rows = value if len(set(groups)) > 1 else value[np.newaxis]
        return np.ascontiguousarray(rows[list(groups)])

    def write(self, weights: IWeightsIO) -> None:
        """Takes the values of the user's arrays.

        Args:
            weights: the arrays; arrays of unknown weights are ignored.

        Raises:
            popart_internal_exception: If an array has another shape or type.
        """
        for name, array in weights.weights.items():
            if name not in self.values:
                continue
            value = self.values[name]
            if array.shape != value.shape or array.dtype != value.dtype:
                raise popart_internal_exception(
                    f"The data for tensor {name}, {array.dtype} of the shape {list(array.shape)}, "
                    f"does not not match the expected write region: {value.dtype} of the shape "
                    f"{list(value.shape)}."
                )
            value[...] = array

    def reset(self, model: Any, ignores_unknown: bool) -> None:
        """Takes the values of the weights of a model.

        Args:
            model: its bytes or its file.
            ignores_unknown: whether unknown weights are ignored instead of refused.

        Raises:
            popart_runtime_error: If a weight is unknown, or has another shape or type.
        """
        for tensor in onnx_files.load(model).graph.initializer:
            if tensor.name not in self.values:
                if ignores_unknown:
                    continue
                raise popart_runtime_error(f"resetWeights, no tensor '{tensor.name}' in tensors")
            array, value = onnx_files.value_of(tensor), self.values[tensor.name]
            if array.shape != value.shape or array.dtype != value.dtype:
                raise popart_runtime_error(
                    f"resetHostWeights: non matching tensor info for {tensor.name}: {array.dtype} "
                    f"{list(array.shape)} and {value.dtype} {list(value.shape)}."
                )
            value[...] = array
        self.must_upload = True

    def save(self, model: onnx.ModelProto, filename: str) -> None:
        """Writes a model with these values.

        Args:
            model: the model, which is not changed.
            filename: the file.

        Raises:
            popart_exception: If values of the model are in a file of another folder.
            OSError: If it cannot be written.
        """
        saved = onnx.ModelProto()
        saved.CopyFrom(model)
        known = {tensor.name: tensor for tensor in saved.graph.initializer}
        onnx_files.check_folder(saved.graph, filename)
        outside = []
        for name, value in self._in_order(saved.graph).items():
            if name.startswith(ACCUMULATOR):
                continue
            tensor = known.get(name) or saved.graph.initializer.add(name=name)
            owner = known.get(name.partition("___")[2], tensor)
            if owner.data_location == onnx.TensorProto.EXTERNAL:
                # State goes into the file of its weight.
                outside.append(tensor)
                tensor.data_type, tensor.data_location = _type_number(value), owner.data_location
                if tensor is not owner:
                    tensor.dims.extend(value.shape)
                    tensor.external_data.extend(owner.external_data)
            elif name not in known or not np.array_equal(onnx_files.value(tensor), value):
                tensor.CopyFrom(onnx_files.made(value, name))
        onnx_files.write(outside, self.values)
        private_files.write_bytes(filename, saved.SerializeToString())

    def _in_order(self, graph: onnx.GraphProto) -> dict[str, np.ndarray]:
        """Returns the values in the order of a model: weights, then each kind of their state."""
        places = {tensor.name: place for place, tensor in enumerate(graph.initializer)}
        kinds = dict.fromkeys(name.partition("___")[0] for name in self.values if "___" in name)
        prefixes = list(kinds)

        def key(name: str) -> tuple[int, int]:
            prefix, _, weight = name.partition("___")
            if name in places and weight not in places:
                return -1, places[name]
            return prefixes.index(prefix) if weight else -1, places.get(weight, len(places))

        return {name: self.values[name] for name in sorted(self.values, key=key)}


def _type_number(array: np.ndarray) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


# --- `RandomState`: the seed of a session, and the state of the device's generators ---

_WORD = 2**32


# Streams of a replica: numbers that all replicas draw alike, and numbers of its own.
_STREAMS, _WORDS = 2, 4


class RandomState:
    """The seed of random numbers, and the state of the generators that round."""

    def __init__(self, setup: Setup) -> None:
        """Seeds random numbers by the clock.

        Args:
            setup: model, options and device.
        """
        self._setup = setup
        self._seed = time.time_ns()
        self._generators = self._generators_of(self._seed)

    def __repr__(self) -> str:
        return f"RandomState[{len(self._generators)} words]"

    def is_used(self, method: str) -> bool:
        """Returns whether the program has random behaviour; logs it if not.

        Args:
            method: the session's method, for the log.
        """
        if self._setup.facts.draws or self._setup.options.enableStochasticRounding:
            return True
        Logger("session").warn(
            f"{method} was called, but this session has no random behaviour. Doing nothing."
        )
        return False

    def variables(self) -> dict[str, np.ndarray]:
        """Returns the program's variable of the seed, if it has one, by id."""
        return {SEED: _words(self._seed)} if self._setup.facts.draws else {}

    def set_seed(self, seed: int, variables: Mapping[str, tf.Variable]) -> None:
        """Sets the seed, and the state of the generators.

        Args:
            seed: the seed; its lowest 64 bits count.
            variables: the variables of the program, by id.
        """
        self._generators = self._generators_of(seed)
        if self._setup.facts.draws:
            with eager_context.eager_mode():
                variables[SEED].assign(_words(seed))

    def seed(self, variables: Mapping[str, tf.Variable]) -> int:
        """Returns the seed that continues the sequence of random numbers; 0 if there are none.

        Args:
            variables: the variables of the program, by id.
        """
        if not self._setup.facts.draws:
            return 0
        with eager_context.eager_mode():
            low, high = variables[SEED].numpy().astype(np.uint32)
        return int(high) * _WORD + int(low)

    def state(self) -> list[int]:
        """Returns the state of the generators; with synthetic data it is empty.

        Raises:
            popart_runtime_error: If the option for it is off.
        """
        self._check_state_is_kept()
        return [] if self._setup.is_synthetic else [int(word) for word in self._generators]

    def set_state(self, state: list[int]) -> None:
        """Sets the state of the generators.

        Args:
            state: the words that `state()` returned.

        Raises:
            popart_runtime_error: If the option for it is off, or the length differs.
        """
        self._check_state_is_kept()
        if self._setup.is_synthetic:
            return
        if len(state) != len(self._generators):
            raise popart_runtime_error(
                f"Devicex::setRngStateValue received rngState of size {len(state)}; was "
                f"expecting size {len(self._generators)}."
            )
        self._generators = np.array(state, np.uint32)

    @contextlib.contextmanager
    def of_run(self) -> Iterator[None]:
        """Gives the device's generators their state for one run, and advances it.

        Yields:
            Nothing.
        """
        rounds = self._setup.options.enableStochasticRounding
        if rounds:
            low, high = (int(word) for word in self._generators[:2])
            native.reset_seed(self._setup.device.ordinal, high * _WORD + low, False)
        yield
        if rounds:
            self._generators = _drawn(self._generators, len(self._generators))

    def _generators_of(self, seed: int) -> np.ndarray:
        device = self._setup.device
        count = self._setup.replicas * _STREAMS * device.tilesPerIPU
        words = count * device.numWorkerContexts * _WORDS
        return _drawn(_words(seed).astype(np.uint32), words)

    def _check_state_is_kept(self) -> None:
        if not self._setup.options.enableLoadAndOffloadRNGState:
            raise popart_runtime_error(
                "The state of the generators is not kept. Set "
                "SessionOptions.enableLoadAndOffloadRNGState to True."
            )


def _words(seed: int) -> np.ndarray:
    """Returns the low and the high word of a seed."""
    return np.array([seed % _WORD, seed // _WORD % _WORD], np.uint32).astype(np.int32)


def _drawn(state: np.ndarray, count: int) -> np.ndarray:
    """Returns pseudo-random words drawn from a state."""
    seed = [int(word) for word in state[: 2 * _WORDS]]
    return np.random.default_rng(seed).integers(0, _WORD, count, np.uint32)
