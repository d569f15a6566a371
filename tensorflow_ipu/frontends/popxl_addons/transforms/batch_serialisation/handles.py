"""`RemoteHandle`: which entries of a remote buffer the steps of a loop load or store."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Optional, Union

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl import ops
from tensorflow_ipu.frontends.popxl.ops import collectives
from tensorflow_ipu.frontends.popxl_addons.remote import create_remote_buffer

# Which row of a buffer a row of the program uses: that many rows later, always the first one (None)
# or what the function returns for the number of the row.
RowOffset = Optional[Union[int, Callable[[popxl.Tensor], Union[popxl.Tensor, int]]]]
# What programs may pass for a handle.
RemoteBufferWithOffset = tuple[popxl.RemoteBuffer, RowOffset]


class RemoteHandle(NamedTuple):
    """Entries of a remote buffer: one for each step of each row.

    Attributes:
        buffer: The buffer.
        row_offset: Which row of the buffer a row of the program uses: that many rows later; for
            None always the first one; or what a function returns for the number of the row.
        shard_group: Replicas that a tensor is sharded over in the buffer; it is gathered when it is
            loaded.
    """

    buffer: popxl.RemoteBuffer
    row_offset: RowOffset = 0
    shard_group: Optional[popxl.ReplicaGrouping] = None  # noqa: UP045

    def reserve(self, steps: int, rows: int) -> None:
        """Gives the buffer as many entries as a loop uses.

        Args:
            steps: how many steps a row has.
            rows: how many rows the program has.
        """
        if self.row_offset is None:
            rows = 1
        elif isinstance(self.row_offset, int):
            rows += self.row_offset
        self.buffer.entries = max(self.buffer.entries, steps * rows)

    def first_entry(self, row: popxl.Tensor, steps: int) -> popxl.Tensor:
        """Returns the entry of the first step of a row, in the current graph.

        Args:
            row: the number of the row, a scalar of int32.
            steps: how many steps a row has.
        """
        if self.row_offset is None:
            return popxl.constant(0, popxl.int32, "entry")
        if callable(self.row_offset):
            own = self.row_offset(row)
            row = own if isinstance(own, popxl.Tensor) else popxl.constant(own, popxl.int32)
        elif self.row_offset:
            row = row + self.row_offset
        return row * steps

    @property
    def is_sharded(self) -> bool:
        """Whether each replica has a shard of the tensors in the buffer."""
        return self.shard_group is not None and self.shard_group.group_size > 1

    def gathered(self, loaded: popxl.Tensor) -> popxl.Tensor:
        """Returns the tensor that was stored, in the current graph.

        Args:
            loaded: the entry.
        """
        if not self.is_sharded:
            return loaded
        return collectives.replicated_all_gather(loaded, group=self.shard_group)

    def sliced(self, tensor: popxl.Tensor) -> popxl.Tensor:
        """Returns the part of a tensor that an entry holds, in the current graph.

        Args:
            tensor: the tensor.
        """
        if not self.is_sharded or tensor.meta_shape:
            return tensor
        return ops.collectives.replica_sharded_slice(tensor, self.shard_group)


def batch_serial_buffer(
    t: popxl.Tensor | popxl.TensorSpec,
    steps: int = 1,
    rows: int = 1,
    shard_group: popxl.ReplicaGrouping | None = None,
) -> popxl.RemoteBuffer:
    """Makes a remote buffer with an entry for each step of each row.

    Args:
        t: a tensor like those that are stored.
        steps: how many steps a row has.
        rows: how many rows there are.
        shard_group: replicas that each entry is sharded over; none by default.

    Returns:
        A buffer of `steps * rows` entries.

    Raises:
        ValueError: If the tensor cannot be shared out equally.
        RuntimeError: For a spec, outside of all graphs.
    """
    over = 1 if shard_group is None else shard_group.group_size
    if isinstance(t, popxl.TensorSpec):
        return create_remote_buffer(t, steps * rows, shard_group, over)
    with t.ir.main_graph:
        return create_remote_buffer(t.spec, steps * rows, shard_group, over)
