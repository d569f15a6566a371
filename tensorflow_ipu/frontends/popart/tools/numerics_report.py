"""`NumericsReport`: compares how weights changed in two trainings."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.model import external_data, loading, tensors

_FORMULA = "|dA - dB|^2 / (|dA||dB| + 1e-8)"
_SMALL = 1e-8


class NumericsReport:
    """The weights of two trainings, before and after."""

    def __init__(self, A0: Any, A1: Any, B0: Any, B1: Any) -> None:
        """Reads the models.

        Args:
            A0: model at the start of a training: its bytes or its file.
            A1: model at its end.
            B0: model at the start of another training.
            B1: model at its end.

        Raises:
            popart_exception: If they have other weights, or weights of types that are not compared.
        """
        sides = [_weights(model) for model in (A0, A1, B0, B1)]
        for other in sides[1:]:
            _check_equal(sides[0], other)
        self._errors: dict[str, float] = {}
        for before, after, before_b, after_b in zip(*sides):
            if before.data_type == onnx.TensorProto.FLOAT:
                a0, a1, b0, b1 = map(_array, (before, after, before_b, after_b))
                self._errors[before.name] = _relative_error(a1 - a0, b1 - b0)

    def __repr__(self) -> str:
        return f"NumericsReport[{len(self._errors)} weights]"

    def getRelativeErrors(self) -> dict[str, float]:
        """Returns how far the changes of each weight differ."""
        return dict(self._errors)

    def report(self, arg0: str) -> str:
        """Returns how far the changes of a weight differ, as text.

        Args:
            arg0: the weight.

        Raises:
            popart_exception: If it was not compared.
        """
        if arg0 not in self._errors:
            raise popart_exception(
                f"No report available for {arg0}. Compared were: {', '.join(self._errors)}."
            )
        return f"{_FORMULA}  = {self._errors[arg0]}"

    def fullReport(self) -> str:
        """Returns how far the changes of all weights differ, as text."""
        return "\n".join(f"{name} :\n   {self.report(name)}" for name in self._errors)


def _weights(model: Any) -> list[onnx.TensorProto]:
    found = list(loading.load(model).graph.initializer)
    for tensor in found:
        name = onnx.TensorProto.DataType.Name(tensor.data_type)
        if "FLOAT" in name and name != "FLOAT" or name == "DOUBLE":
            raise popart_exception(f"NumericsReport compares FLOAT only. {tensor.name} is {name}.")
    return found


def _check_equal(first: list[onnx.TensorProto], other: list[onnx.TensorProto]) -> None:
    """Refuses models with other weights."""
    if len(first) != len(other):
        raise popart_exception(
            f"The models have a different number of initializers: {len(first)} and {len(other)}."
        )
    for a, b in zip(first, other):
        if a.name != b.name:
            raise popart_exception(f"Tensor names do not correspond: {a.name} and {b.name}.")
        if (a.data_type, list(a.dims)) != (b.data_type, list(b.dims)):
            raise popart_exception(f"TensorProto infos differ for {a.name}.")


def _array(tensor: onnx.TensorProto) -> np.ndarray:
    external_data.load(tensor)
    return tensors.value(tensor).astype(np.float64)


def _relative_error(a: np.ndarray, b: np.ndarray) -> float:
    norms = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.sum((a - b) ** 2) / (norms + _SMALL))
