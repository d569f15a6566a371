"""Operators and methods of tensors, and the host values that they take."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union

import numpy as np

from tensorflow_ipu.frontends.popxl.core.kinds import function

if TYPE_CHECKING:
    from typing_extensions import Self


ScalarType = Union[int, float, bool]


HostTensor = Union[np.ndarray, Iterable[ScalarType]]


HostScalarTensor = Union[ScalarType, HostTensor]


def host_tensor_types() -> tuple[type, ...]:
    """Returns the classes of data of the host, for `isinstance`; torch's too if it is installed."""
    found: tuple[type, ...] = (np.ndarray, Iterable)
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return found
    return (*found, torch.Tensor)


#: The class of tensors, which is defined above this module.
TensorT = TypeVar("TensorT")


class TensorOps(Generic[TensorT]):
    """Methods and operators of a tensor, each of which adds ops to the current graph."""

    @property
    def T(self) -> TensorT:  # noqa: N802
        """The tensor with its axes reversed."""
        return function("transpose")(self)

    @property
    def T_(self) -> TensorT:  # noqa: N802
        """The same as a view."""
        return function("transpose_")(self)

    def transpose(self, permutation: Iterable[int] | None = None) -> TensorT:
        """Returns it with its axes in another order; see `ops.transpose`.

        Args:
            permutation: the axes in their new order; reversed by default.
        """
        return function("transpose")(self, permutation)

    def transpose_(self, permutation: Iterable[int] | None = None) -> TensorT:
        """Returns a view of it with its axes in another order; see `ops.transpose_`.

        Args:
            permutation: the axes in their new order; reversed by default.
        """
        return function("transpose_")(self, permutation)

    def reshape(self, shape: Sequence[int]) -> TensorT:
        """Returns it in another shape; see `ops.reshape`.

        Args:
            shape: the new shape.
        """
        return function("reshape")(self, shape)

    def reshape_(self, shape: Sequence[int]) -> TensorT:
        """Returns a view of it in another shape; see `ops.reshape_`.

        Args:
            shape: the new shape.
        """
        return function("reshape_")(self, shape)

    def flatten(self) -> TensorT:
        """Returns it with one dimension; see `ops.flatten`."""
        return function("flatten")(self)

    def flatten_(self) -> TensorT:
        """Returns a view of it with one dimension; see `ops.flatten_`."""
        return function("flatten_")(self)

    def detach(self) -> TensorT:
        """Returns it without a gradient; see `ops.detach`."""
        return function("detach")(self)

    def detach_(self) -> TensorT:
        """Returns a view of it without a gradient; see `ops.detach_`."""
        return function("detach_")(self)

    def diag(self) -> TensorT:
        """Returns the diagonal of a matrix.

        Raises:
            ValueError: If it is no matrix.
        """
        return function("diag")(self)

    def copy_to_ipu(self, destination: int, source: int | None = None) -> TensorT:
        """Returns a copy of it on another IPU; see `ops.ipu_copy`.

        Args:
            destination: index of the IPU that the copy is on.
            source: index of the IPU that the tensor is on; that of its op by default.
        """
        return function("ipu_copy")(self, destination, source)

    def _operand(self, value: Any) -> TensorT:
        """Returns the other operand as a tensor; other values become constants of the same type."""
        return function("operand_for")(self, value)

    def __add__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("add")(self, self._operand(other))

    def __radd__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("add")(self._operand(other), self)

    def __iadd__(self, other: TensorT | HostScalarTensor) -> Self:
        function("add_")(self, self._operand(other))
        return self

    def __sub__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("sub")(self, self._operand(other))

    def __rsub__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("sub")(self._operand(other), self)

    def __mul__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("mul")(self, self._operand(other))

    def __rmul__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("mul")(self._operand(other), self)

    def __truediv__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("div")(self, self._operand(other))

    def __rtruediv__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("div")(self._operand(other), self)

    def __mod__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("fmod")(self, self._operand(other))

    def __rmod__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("fmod")(self._operand(other), self)

    def __pow__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("pow")(self, function("as_tensor")(other))

    def __rpow__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("pow")(function("as_tensor")(other), self)

    def __matmul__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("matmul")(self, self._operand(other))

    def __rmatmul__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("matmul")(self._operand(other), self)

    def __and__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("logical_and")(self, self._operand(other))

    def __rand__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("logical_and")(self._operand(other), self)

    def __or__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("logical_or")(self, self._operand(other))

    def __ror__(self, other: TensorT | HostScalarTensor) -> TensorT:
        return function("logical_or")(self._operand(other), self)

    def __neg__(self) -> TensorT:
        return function("negate")(self)

    def __invert__(self) -> TensorT:
        return function("logical_not")(self)

    def __getitem__(self, key: Any) -> TensorT:
        return function("item")(self, key)
