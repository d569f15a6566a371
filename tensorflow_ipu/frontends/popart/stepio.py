"""Host data of a step: `PyStepIO`, `PyStepIOCallback`, `PyWeightsIO`."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensorflow_ipu.frontends.popart.errors import popart_exception, popart_runtime_error
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo


class IStepIO(abc.ABC):
    """Source of the inputs of a step, and target of its anchors."""

    #: Whether the session checks sizes of arrays.
    checks_sizes = False

    @abc.abstractmethod
    def read(self, name: str, samples: int, shape: tuple[int, ...]) -> np.ndarray:
        """Returns the samples of an input for one step.

        Args:
            name: the input.
            samples: how many.
            shape: shape of each.
        """

    @abc.abstractmethod
    def write(self, name: str, samples: np.ndarray) -> None:
        """Takes the samples of an anchor of one step.

        Args:
            name: the anchor.
            samples: the samples, along the first dimension.
        """


class PyStepIO(IStepIO):
    """Arrays for the inputs and anchors of a step."""

    def __init__(self, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> None:
        """Takes the arrays without a copy.

        Args:
            inputs: an array for each input, C-contiguous.
            outputs: an array for each anchor, which `run` writes to.

        Raises:
            popart_exception: If an array is not contiguous.
        """
        _check_contiguous({**inputs, **outputs})
        self.inputs = dict(inputs)
        self.outputs = dict(outputs)
        self.checks_sizes = True
        # How many elements of each input were read: the next step goes on there.
        self._read: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"PyStepIO[inputs {sorted(self.inputs)}, outputs {sorted(self.outputs)}]"

    def enableRuntimeAsserts(self, arg0: bool) -> None:
        """Sets whether the session checks sizes of arrays.

        Args:
            arg0: whether they are.
        """
        self.checks_sizes = bool(arg0)

    def read(self, name: str, samples: int, shape: tuple[int, ...]) -> np.ndarray:
        """Returns the samples of an input for one step; after the last element comes the first.

        Args:
            name: the input.
            samples: how many.
            shape: shape of each.

        Raises:
            popart_runtime_error: If there is no array for it.
        """
        if name not in self.inputs:
            raise popart_runtime_error(
                f"No tensor {name} provided in PyStepIO's inputs. There are: "
                f"{', '.join(sorted(self.inputs)) or 'none'}."
            )
        flat = self.inputs[name].reshape(-1)
        count = samples * int(np.prod(shape, dtype=np.int64))
        start = self._read.get(name, 0)
        if start == 0 and flat.size == count:
            return flat.reshape(samples, *shape)
        self._read[name] = (start + count) % max(1, flat.size)
        positions = np.arange(start, start + count)
        return flat.take(positions, mode="wrap").reshape(samples, *shape)

    def write(self, name: str, samples: np.ndarray) -> None:
        """Takes the samples of an anchor of one step.

        Args:
            name: the anchor.
            samples: the samples, along the first dimension.

        Raises:
            popart_runtime_error: If there is no array for it, or of another type or size.
        """
        if name not in self.outputs:
            raise popart_runtime_error(
                f"No tensor {name} provided in PyStepIO's outputs. There are: "
                f"{', '.join(sorted(self.outputs)) or 'none'}."
            )
        target = self.outputs[name]
        if target.dtype != samples.dtype:
            raise popart_runtime_error(
                f"Type discrepancy for tensor {name}. User provided : {target.dtype} and expected "
                f": {samples.dtype}"
            )
        flat = target.reshape(-1)
        # Without checks an array may have room for less.
        count = min(flat.size, samples.size)
        flat[:count] = samples.reshape(-1)[:count]


class PyStepIOCallback(IStepIO):
    """Functions that give the inputs of a step and take its anchors, sample by sample."""

    def __init__(
        self,
        input_callback: Callable[[str, bool], Any],
        input_complete_callback: Callable[[str], None],
        output_callback: Callable[[str], Any],
        output_complete_callback: Callable[[str], None],
    ) -> None:
        """Takes the functions.

        Args:
            input_callback: takes an input, and whether its data is only wanted ahead of need;
                returns an array for one sample. Ahead of need it may return None.
            input_complete_callback: is told of each input that was read.
            output_callback: takes an anchor; returns an array to write one sample to.
            output_complete_callback: is told of each anchor that was written.
        """
        self._input = input_callback
        self._input_complete = input_complete_callback
        self._output = output_callback
        self._output_complete = output_complete_callback

    def __repr__(self) -> str:
        return "PyStepIOCallback[]"

    def read(self, name: str, samples: int, shape: tuple[int, ...]) -> np.ndarray:
        """Returns the samples of an input for one step.

        Args:
            name: the input.
            samples: how many.
            shape: shape of each.

        Raises:
            popart_exception: If a sample is not contiguous.
            popart_runtime_error: If a sample has another size.
        """
        return np.stack([self._read_one(name, shape) for _ in range(samples)])

    def write(self, name: str, samples: np.ndarray) -> None:
        """Takes the samples of an anchor of one step.

        Args:
            name: the anchor.
            samples: the samples, along the first dimension.

        Raises:
            popart_exception: If an array is not contiguous.
            popart_runtime_error: If an array has another size.
        """
        for sample in samples:
            target = np.asarray(self._output(name))
            _check_contiguous({name: target})
            _check_size(name, target, sample.shape)
            target.reshape(-1)[:] = sample.reshape(-1)
            self._output_complete(name)

    def _read_one(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        array = self._input(name, True)
        if array is None or np.ndim(array) == 0:
            array = self._input(name, False)
        array = np.asarray(array)
        _check_contiguous({name: array})
        _check_size(name, array, shape)
        sample = np.array(array).reshape(shape)
        self._input_complete(name)
        return sample


class IWeightsIO(abc.ABC):
    """Arrays for weights."""

    @property
    @abc.abstractmethod
    def weights(self) -> dict[str, np.ndarray]:
        """The arrays by name."""


class PyWeightsIO(IWeightsIO):
    """Arrays that weights are read to or written from."""

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        """Takes the arrays without a copy.

        Args:
            weights: an array for each weight, C-contiguous.

        Raises:
            popart_exception: If an array is not contiguous.
        """
        _check_contiguous(weights)
        self._weights = dict(weights)

    def __repr__(self) -> str:
        return f"PyWeightsIO[{sorted(self._weights)}]"

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        return self._weights


class InputShapeInfo:
    """Shapes and types of inputs that a model leaves open."""

    def __init__(self) -> None:
        self._infos: dict[str, TensorInfo] = {}

    def __repr__(self) -> str:
        return f"InputShapeInfo[{self._infos}]"

    def add(self, arg0: str, arg1: TensorInfo) -> None:
        """Sets the shape and type of an input.

        Args:
            arg0: the input.
            arg1: its shape and type.
        """
        self._infos[arg0] = arg1

    def get(self, arg0: str) -> TensorInfo:
        """Returns the shape and type of an input.

        Args:
            arg0: the input.

        Raises:
            popart_exception: If there is none.
        """
        if arg0 not in self._infos:
            raise popart_exception(
                f"Could not find tensor {arg0} in InputShapeInfo. It has: "
                f"{', '.join(sorted(self._infos)) or 'nothing'}."
            )
        return self._infos[arg0]

    def has(self, arg0: str) -> bool:
        """Returns whether the shape and type of an input were set.

        Args:
            arg0: the input.
        """
        return arg0 in self._infos


def _check_contiguous(arrays: Mapping[str, np.ndarray]) -> None:
    """Refuses arrays whose elements do not follow each other."""
    for name, array in arrays.items():
        if not array.flags.c_contiguous:
            raise popart_exception(
                f"The array for tensor {name} cannot be used: it is not c-contiguous. Pass "
                "np.ascontiguousarray(array)."
            )


def _check_size(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.size != int(np.prod(shape, dtype=np.int64)):
        raise popart_runtime_error(
            f"A sample of tensor {name} has the shape {list(shape)}. Received an array of "
            f"{array.size} elements, of the shape {list(array.shape)}."
        )
