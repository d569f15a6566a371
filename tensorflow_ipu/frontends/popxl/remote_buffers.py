"""`RemoteBuffer`: memory of each replica that is outside of its IPUs."""

from __future__ import annotations

from collections.abc import Iterable

from tensorflow_ipu.frontends.popxl import context, dtypes
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec, as_int
from tensorflow_ipu.frontends.popxl.tensor import Tensor


class RemoteBuffer:
    """Memory outside of the IPUs for tensors of one shape and type, in numbered entries.

    Each replica has its own. Entries are zero until something is stored, and keep their values
    from run to run.

    Attributes:
        shard_over: Over how many replicas the tensors are sharded whose shards are the entries;
            None where that follows from their size.
    """

    shard_over: int | None = None

    def __init__(
        self, tensor_shape: Iterable[int], tensor_dtype: dtypes.DTypeLike, entries: int = 1
    ) -> None:
        """Makes a buffer of the Ir of the current graph.

        Args:
            tensor_shape: shape of an entry.
            tensor_dtype: type of its elements.
            entries: how many there are.

        Raises:
            ValueError: If `entries` is no positive integer.
            RuntimeError: Outside of all graphs.
        """
        self._ir = context.get_ir()
        self._remote_buffer_id = self._ir.next_number("remote buffer", 1)
        self.set_remote_buffer_info(tensor_dtype, tensor_shape, entries)

    def __repr__(self) -> str:
        return (
            f"RemoteBuffer[{self._remote_buffer_id} {self.tensor_dtype} {self.tensor_shape} "
            f"{self._entries} entries]"
        )

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return hash((self._ir.id, self._remote_buffer_id))

    @property
    def remote_buffer_id(self) -> int:
        """Its number in the Ir, from 1."""
        return self._remote_buffer_id

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """The shape of an entry."""
        return self._spec.shape

    @property
    def tensor_dtype(self) -> dtypes.dtype:
        """The type of the elements."""
        return self._spec.dtype

    @property
    def spec(self) -> TensorSpec:
        """Shape, type and meta shape of an entry."""
        return self._spec

    @property
    def entries(self) -> int:
        """How many entries it has."""
        return self._entries

    @entries.setter
    def entries(self, entries: int) -> None:
        number = as_int(entries)
        if number is None or number < 1:
            raise ValueError(f"Entries must be a non-zero, positive integer. Received: {entries!r}")
        self._entries = number

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """The shape of the tensors that the entries are shards of; else empty."""
        return self._spec.meta_shape

    @meta_shape.setter
    def meta_shape(self, meta_shape: Iterable[int]) -> None:
        self._spec = TensorSpec(self.tensor_shape, self.tensor_dtype, tuple(meta_shape))

    def set_remote_buffer_info(
        self, tensor_dtype: dtypes.DTypeLike, tensor_shape: Iterable[int], entries: int
    ) -> None:
        """Gives the buffer another form.

        Args:
            tensor_dtype: type of the elements.
            tensor_shape: shape of an entry.
            entries: how many there are.

        Raises:
            ValueError: If `entries` is no positive integer.
        """
        meta_shape = self._spec.meta_shape if hasattr(self, "_spec") else ()
        self._spec = TensorSpec(tuple(tensor_shape), dtypes.of_device(tensor_dtype), meta_shape)
        self.entries = entries

    def validate_tensor_matches_buffer(self, t: Tensor, num_shards: int = 1) -> None:
        """Refuses tensors that are not like an entry.

        Args:
            t: the tensor.
            num_shards: over how many replicas the tensor is sharded; if that is not 1, it is the
                whole of which the buffer has shards.

        Raises:
            ValueError: If shape or type differ.
        """
        expected = self.tensor_shape if num_shards == 1 else self.meta_shape
        if (t.shape, t.dtype) != (expected, self.tensor_dtype):
            raise ValueError(
                f"Tensor {t.id} does not match buffer. Expected, for {self!r}: {self.tensor_dtype} "
                f"of the shape {expected}. Received: {t.dtype} of the shape {t.shape}."
            )

    def check_offset(self, offset: int) -> int:
        """Returns the number of an entry.

        Args:
            offset: the number.

        Raises:
            ValueError: If there is no such entry.
        """
        if not 0 <= offset < self._entries:
            raise ValueError(
                f"The offset must be at least 0 and less than {self._entries}, the entries of "
                f"{self!r}. Received: {offset}"
            )
        return offset


def remote_buffer(
    tensor_shape: Iterable[int], tensor_dtype: dtypes.DTypeLike, entries: int = 1
) -> RemoteBuffer:
    """Makes a remote buffer; see `RemoteBuffer`.

    Args:
        tensor_shape: shape of an entry.
        tensor_dtype: type of its elements.
        entries: how many there are.

    Raises:
        ValueError: If `entries` is no positive integer.
    """
    return RemoteBuffer(tensor_shape, tensor_dtype, entries)
