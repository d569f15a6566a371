"""`HostEmbedding` and its scope: lookups and updates of tables on the host."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, NoReturn

import tensorflow as tf

from tensorflow_ipu.configs.enums import SyntheticDataCategory
from tensorflow_ipu.feeds import common
from tensorflow_ipu.ops.host_embedding import tables
from tensorflow_ipu.ops.host_embedding.specs import HostEmbeddingOptimizerSpec, anchor
from tensorflow_ipu.util.short_repr import shows

_STRATEGIES = ("TOKEN", "ENCODING")


class HostEmbeddingScope:
    """A context manager within which programs can use a host embedding.

    Entering copies the table to where programs find it. Leaving writes it back.
    """

    def __init__(self, embedding: HostEmbedding, session: Any) -> None:
        """Makes a scope; `HostEmbedding.register` does."""
        self._embedding = embedding
        self._session = session

    __repr__ = shows(lambda self: {"": self._embedding._name})

    def __enter__(self) -> HostEmbeddingScope:
        """Registers the embedding."""
        self._embedding._run("register", self._session)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the registration."""
        self._embedding._run("deregister", self._session)


class HostEmbedding:
    """A table of the shape [tokens, encoding] on the host, for lookups in programs.

    The model's optimizer does not change the table; the optimizer spec says what does. A trainable
    scalar, `<name>/__dummy`, ties the lookup to the model's gradients: the table is trained when
    the optimizer asks for the gradient of that variable. It stays zero.
    """

    def __init__(
        self,
        name: str,
        embedding_tensor: Any,
        partition_strategy: str = "TOKEN",
        optimizer_spec: HostEmbeddingOptimizerSpec | None = None,
    ) -> None:
        """Wraps a table.

        Args:
            name: identifies the embedding in a session.
            embedding_tensor: the table, float16 or float32. A variable, if it is to be trained.
            partition_strategy: "TOKEN" or "ENCODING": along which dimension replicas would share
                it. The values are the same.
            optimizer_spec: how it is trained; None for not at all.

        Raises:
            ValueError: an argument is none of these.
        """
        _check_spec(partition_strategy, optimizer_spec)
        tables.check_table(embedding_tensor)
        self._name = name
        self._table = embedding_tensor
        self._partition_strategy = partition_strategy
        self._spec = optimizer_spec or HostEmbeddingOptimizerSpec(0.0)
        if self._spec.trains and not tables.is_assignable(embedding_tensor):
            raise ValueError(
                "embedding_tensor must be a variable to be trained: what is learned has to go "
                f"somewhere. Received: {embedding_tensor!r}"
            )
        self._graph = None if tables.is_eager(embedding_tensor) else embedding_tensor.graph
        # Made now, because a session may finalize its graph.
        self._operations: dict[str, Any] = {}
        with tables.on_host(self._graph):
            self._slots = self._spec.create_slot_variables(embedding_tensor, name)
            if self._graph is not None:
                self._operations = {key: self._make(key) for key in ("register", "deregister")}

    __repr__ = shows(
        lambda self: {
            "": self._name,
            "table": common.structure_text(self._table),
            "partition_strategy": self._partition_strategy,
            "optimizer_spec": self._spec,
        }
    )

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not supported.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "A HostEmbedding cannot be called. Use its lookup(indices) in the program."
        )

    def get_embedding_tensor(self) -> Any:
        """Returns the table. It has what was trained after the register scope, at the latest."""
        return self._table

    def register(self, session: Any = None) -> HostEmbeddingScope:
        """Returns a context manager; programs that use the embedding run inside it.

        Args:
            session: the session that runs them. None for tables of eager mode.

        Raises:
            ValueError: there is no session, and the table is in a graph.
        """
        if self._graph is not None and session is None:
            raise ValueError(
                f"Registering the host embedding {self._name} requires a session, because its "
                "table is in a graph: use `with embedding.register(session):`."
            )
        return HostEmbeddingScope(self, session)

    def lookup(self, indices: Any, clip_indices: bool = True) -> tf.Tensor:
        """Looks rows up, in the program of a device.

        Args:
            indices: integers, any shape.
            clip_indices: whether indices are clipped into the valid range. Without, rows out of
                range are undefined.

        Returns:
            `indices.shape + [encoding]`, of the type of the table.

        Raises:
            TypeError: the indices are not integers.
        """
        with tf.name_scope(f"{self._name.replace('/', '_')}_lookup"):
            indices = tf.convert_to_tensor(indices)
            if not indices.dtype.is_integer:
                raise TypeError(f"indices must be integers. Received: {indices.dtype.name}")
            indices = tf.cast(indices, tf.int32)
            if clip_indices:
                indices = tf.clip_by_value(indices, 0, self._table.shape[0] - 1)
            if common.is_synthetic(SyntheticDataCategory.HostEmbedding):
                return self._synthetic(indices)
            return self._spec.create_lookup_instruction(
                self._table, indices, self._slots, self._partition_strategy, self._name
            )

    def _synthetic(self, indices: tf.Tensor) -> tf.Tensor:
        """Returns made-up rows; the table on the host is left alone."""
        row = common.synthetic_tensor(self._table.dtype.base_dtype, self._table.shape[1:])
        # For optimizers, which want a variable that the loss depends on.
        row += tf.cast(0 * anchor(self._table, self._name), row.dtype)
        rows = tf.broadcast_to(row, tf.concat([tf.shape(indices), row.shape], 0))
        return tf.ensure_shape(rows, indices.shape.concatenate(row.shape))

    def _make(self, key: str) -> Any:
        make = {
            "register": self._spec.create_register_instruction,
            "deregister": self._spec.create_deregister_instruction,
        }[key]
        return make(self._table, self._slots, self._name)

    def _run(self, key: str, session: Any) -> None:
        """Registers or deregisters the table."""
        if common.is_synthetic(SyntheticDataCategory.HostEmbedding):
            return
        if self._graph is not None:
            session.run(self._operations[key])
            return
        with tf.init_scope():
            self._make(key)


def create_host_embedding(
    name: str,
    shape: Sequence[int],
    dtype: Any,
    partition_strategy: str = "TOKEN",
    optimizer_spec: HostEmbeddingOptimizerSpec | None = None,
    initializer: Any = None,
) -> HostEmbedding:
    """Creates a table on the CPU and wraps it.

    In a graph it is a variable of the current variable scope.

    Args:
        name: name of the variable and of the embedding.
        shape: [tokens, encoding].
        dtype: float16 or float32.
        partition_strategy: see `HostEmbedding`.
        optimizer_spec: see `HostEmbedding`.
        initializer: makes the first value; None for Glorot's uniform one.

    Returns:
        The embedding.

    Raises:
        ValueError: see `HostEmbedding`.
    """
    _check_spec(partition_strategy, optimizer_spec)
    tables.check_form(tf.TensorShape(shape), tf.as_dtype(dtype))
    table = tables.make(name, shape, tf.as_dtype(dtype), initializer)
    return HostEmbedding(name, table, partition_strategy, optimizer_spec)


def _check_spec(partition_strategy: Any, optimizer_spec: Any) -> None:
    if partition_strategy not in _STRATEGIES:
        raise ValueError(
            f"partition_strategy must be one of {', '.join(map(repr, _STRATEGIES))}. Received: "
            f"{partition_strategy!r}"
        )
    if optimizer_spec is not None and not isinstance(optimizer_spec, HostEmbeddingOptimizerSpec):
        raise ValueError(
            "optimizer_spec must be a HostEmbeddingOptimizerSpec or None. Received: "
            f"{optimizer_spec!r}"
        )
