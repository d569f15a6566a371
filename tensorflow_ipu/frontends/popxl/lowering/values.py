"""`Values`: what the tensors of a graph hold while the graph is put into a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorflow_ipu.frontends.popxl.graph import storage_of
from tensorflow_ipu.frontends.popxl.tensor import Tensor


class Values:
    """The TensorFlow tensor that each tensor of a graph holds now.

    To write gives a new TensorFlow tensor to all tensors that have storage of their own and are
    written; views are read from those. So nothing in the program is modified in place.
    """

    def __init__(self, initial: Callable[[Tensor], Any]) -> None:
        """Starts with no values.

        Args:
            initial: returns the value of a variable or constant that is read first.
        """
        self._initial = initial
        self._held: dict[Tensor, Any] = {}
        # Views, with the values that they were read from.
        self._read: dict[Tensor, tuple[list[Any], Any]] = {}

    def define(self, tensor: Tensor, value: Any) -> None:
        """Sets the value of a tensor with storage of its own, when it is made.

        Args:
            tensor: the tensor.
            value: its value.
        """
        self._held[tensor] = value

    def read(self, tensor: Tensor) -> Any:
        """Returns what a tensor holds now.

        Args:
            tensor: the tensor.
        """
        if tensor.view is None:
            if tensor not in self._held:
                self._held[tensor] = self._initial(tensor)
            return self._held[tensor]
        roots = [self.read(root) for root in storage_of(tensor)]
        known = self._read.get(tensor)
        if known is None or any(a is not b for a, b in zip(known[0], roots)):
            known = roots, tensor.view.read([self.read(source) for source in tensor.sources])
            self._read[tensor] = known
        return known[1]

    def write(self, tensor: Tensor, value: Any) -> None:
        """Writes into a tensor, and so into all that share its storage.

        Args:
            tensor: the tensor.
            value: the value.
        """
        if tensor.view is None:
            self._held[tensor] = value
            return
        before = [self.read(source) for source in tensor.sources]
        for source, written in zip(tensor.sources, tensor.view.write(before, value)):
            self.write(source, written)
