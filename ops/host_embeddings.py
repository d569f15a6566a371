"""Host embeddings: tables on the host that the device looks up rows in and trains."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, NoReturn

import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.ops import resource_variable_ops

from tensorflow_ipu.configs.enums import SyntheticDataCategory
from tensorflow_ipu.feeds import common
from tensorflow_ipu.runtime import native
from tensorflow_ipu.util.short_repr import shows

# --- Tables ---

_DTYPES = (tf.float16, tf.float32)
# Of `scopes.ipu_jit_scope`. They would make TensorFlow compile what is on the host.
_JIT_ATTRIBUTES = ("_XlaCompile", "_XlaSeparateCompiledGradients", "_XlaScope")


def make_table(name: str, shape: Sequence[int], dtype: tf.DType, initializer: Any) -> Any:
    """Makes a table: in a graph, a reference variable of the current variable scope.

    Args:
        name: name of the variable.
        shape: [tokens, encoding].
        dtype: its type.
        initializer: makes the first value; None for Glorot's uniform one.
    """
    with tf.init_scope():
        if tf.executing_eagerly():
            with on_host(None):
                return _eager_table(name, shape, dtype, initializer)
        with on_host(tf.compat.v1.get_default_graph()):
            given = initializer is not None and not callable(initializer)
            return tf.compat.v1.get_variable(
                name,
                None if given else shape,
                dtype,
                _value(initializer, shape, dtype) if given else initializer,
                use_resource=False,
                trainable=True,
            )


@contextlib.contextmanager
def on_host(graph: Any) -> Iterator[None]:
    """Leaves the program that is being built, and IPU scopes, for the CPU.

    Args:
        graph: where to go; None for eager mode.
    """
    with contextlib.ExitStack() as stack:
        if graph is not None:
            stack.enter_context(graph.as_default())
            scopes = [name for name in _JIT_ATTRIBUTES if name in graph._attr_scope_map]
            stack.enter_context(graph._attr_scope(dict.fromkeys(scopes)))
        stack.enter_context(tf.control_dependencies(None))
        stack.enter_context(tf.device("/device:CPU:0"))
        yield


def is_eager(table: Any) -> bool:
    """Returns whether a table belongs to no graph."""
    return isinstance(table, tf.__internal__.EagerTensor) or (
        isinstance(table, tf.Variable) and getattr(table, "_in_graph_mode", True) is False
    )


def is_assignable(table: Any) -> bool:
    """Returns whether a table is a variable, to which trained rows can be written back."""
    return isinstance(table, tf.Variable) or table.dtype._is_ref_dtype


def check_table(table: Any) -> None:
    """Checks that a table is a tensor or variable of the right form.

    Raises:
        ValueError: it is not.
    """
    if not tf.is_tensor(table) and not isinstance(table, tf.Variable):
        raise ValueError(f"embedding_tensor must be a tensor. Received: {table!r}")
    check_form(table.shape, table.dtype.base_dtype)


def check_form(shape: tf.TensorShape, dtype: tf.DType) -> None:
    """Checks the shape and the type of a table.

    Raises:
        ValueError: they are not those of a table.
    """
    if shape.rank != 2 or not shape.is_fully_defined():
        raise ValueError(
            "The table of a host embedding must have the shape [tokens, encoding]. Received: "
            f"{shape}"
        )
    if dtype not in _DTYPES:
        raise ValueError(
            "The table of a host embedding must be of the type float16 or float32. Received: "
            f"{dtype.name}"
        )


def _value(value: Any, shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
    """Returns a first value as a tensor; it must have the shape."""
    tensor = tf.cast(value, dtype)
    if tensor.shape != tf.TensorShape(shape):
        raise ValueError(
            f"initializer must have the shape of the table, {tuple(shape)}. Received: "
            f"{tuple(tensor.shape)}"
        )
    return tensor


def _eager_table(name: str, shape: Sequence[int], dtype: tf.DType, initializer: Any) -> Any:
    """Makes the table of eager mode; on the CPU, also in the scope of an IPUStrategy."""
    if initializer is None:
        initializer = tf.initializers.GlorotUniform()
    value = initializer
    if callable(initializer):
        made = initializer() if isinstance(initializer, type) else initializer
        value = made(tf.TensorShape(shape), dtype=dtype)
    return resource_variable_ops.ResourceVariable(_value(value, shape, dtype), name=name)


# --- Optimizers ---


class HostEmbeddingOptimizerSpec:
    """Gradient descent: each backward pass does `table[id] -= learning_rate * gradient`.

    Gradients of repeated ids add up, and so do those of all replicas.
    """

    def __init__(self, learning_rate: Any, optimizer_name: str | None = None) -> None:
        """Makes a spec.

        Args:
            learning_rate: a number or a scalar tensor.
            optimizer_name: ignored: there is gradient descent only.
        """
        del optimizer_name
        self._learning_rate = learning_rate

    __repr__ = shows(
        lambda self: {
            "learning_rate": self._learning_rate,
            "backward_passes_per_update": self.backward_passes_per_update,
        }
    )

    def get_learning_rate(self) -> Any:
        """Returns the learning rate."""
        return self._learning_rate

    @property
    def trains(self) -> bool:
        """Whether the table changes: not with the number 0 as rate."""
        rate = self._learning_rate
        return bool(tf.is_tensor(rate) or isinstance(rate, tf.Variable) or rate != 0)

    @property
    def backward_passes_per_update(self) -> int:
        """How many backward passes make one update."""
        return 1

    def create_slot_variables(self, embedding_tensor: Any, name: str) -> list[Any]:
        """Returns the variables on the CPU that the optimizer needs: none.

        Args:
            embedding_tensor: the table.
            name: of the host embedding.
        """
        del embedding_tensor, name
        return []

    def create_register_instruction(self, embedding_tensor: Any, slot_vars: Any, name: str) -> Any:
        """Makes the operation that registers a table; eagerly, registers it.

        Args:
            embedding_tensor: the table, [tokens, encoding], float16 or float32.
            slot_vars: the result of `create_slot_variables`.
            name: of the host embedding.

        Returns:
            The operation. It fails if the name is registered already.
        """
        del slot_vars
        with tf.device("/device:CPU:0"):
            return native.ops().ipu_host_embedding_register(embedding_tensor, embedding=name)

    def create_deregister_instruction(
        self, embedding_tensor: Any, slot_vars: Any, name: str
    ) -> Any:
        """Makes the operation that ends a registration and writes the table back.

        Args:
            embedding_tensor: the table. What cannot be assigned to is left alone.
            slot_vars: the result of `create_slot_variables`.
            name: of the host embedding.

        Returns:
            The operation. It fails if the name is not registered.
        """
        del slot_vars
        with tf.device("/device:CPU:0"):
            values = native.ops().ipu_host_embedding_deregister(
                T=embedding_tensor.dtype.base_dtype, shape=embedding_tensor.shape, embedding=name
            )
            if not is_assignable(embedding_tensor):
                return values
            return tf.compat.v1.assign(embedding_tensor, values)

    def create_lookup_instruction(
        self,
        embedding_tensor: Any,
        indices: tf.Tensor,
        slot_vars: Any,
        partition_strategy: str,
        name: str,
    ) -> tf.Tensor:
        """Makes the lookup in the device's program.

        Args:
            embedding_tensor: the table, [tokens, encoding].
            indices: int32, any shape.
            slot_vars: the result of `create_slot_variables`.
            partition_strategy: how the table is split over replicas. Of no effect on values.
            name: of the host embedding.

        Returns:
            `indices.shape + [encoding]`, of the type of the table.
        """
        del slot_vars, partition_strategy
        return native.ops().ipu_host_embedding_lookup(
            indices,
            anchor(embedding_tensor, name),
            tf.cast(self._learning_rate, tf.float32),
            T=embedding_tensor.dtype.base_dtype,
            shape=embedding_tensor.shape,
            embedding=name,
            trains=self.trains,
            accumulation_factor=self.backward_passes_per_update,
        )


class HostEmbeddingSGDGAOptimizerSpec(HostEmbeddingOptimizerSpec):
    """Gradient descent for models that accumulate gradients.

    Updates of so many backward passes are collected, and applied together with the last: that is
    when a gradient-accumulation optimizer or a pipeline of as many mini-batches does its update.
    """

    def __init__(self, learning_rate: Any, accumulation_factor: int) -> None:
        """Makes a spec.

        Args:
            learning_rate: a number or a scalar tensor.
            accumulation_factor: mini-batches for one update, as many as in the model. Up to 1 this
                is the same as `HostEmbeddingOptimizerSpec`.

        Raises:
            ValueError: the factor is not an int.
        """
        super().__init__(learning_rate)
        try:
            self._accumulation_factor = operator.index(accumulation_factor)
        except TypeError:
            raise ValueError(
                f"accumulation_factor must be an int. Received: {accumulation_factor!r}"
            ) from None

    def get_accumulation_factor(self) -> int:
        """Returns the accumulation factor."""
        return self._accumulation_factor

    @property
    def backward_passes_per_update(self) -> int:
        """How many backward passes make one update."""
        return max(1, self._accumulation_factor)


def anchor(table: Any, name: str) -> tf.Tensor:
    """Returns the value of the trainable scalar `<name>/__dummy`, made at the first call.

    Gradients are asked for variables. The table is none to the program, so this stands for it; its
    own gradient is zero.

    Args:
        table: the table; outside graphs it holds the variable.
        name: of the host embedding.
    """
    if not ops.executing_eagerly_outside_functions():
        # From the root, whatever scope the lookup is in: all lookups share it.
        root = tf.compat.v1.VariableScope(tf.compat.v1.AUTO_REUSE, name="")
        with tf.compat.v1.variable_scope(root, auxiliary_name_scope=False):
            variable = tf.compat.v1.get_variable(
                f"{name}/__dummy",
                [],
                tf.float32,
                tf.compat.v1.zeros_initializer(),
                trainable=True,
                use_resource=True,
            )
        return tf.convert_to_tensor(variable)
    if not hasattr(table, "_ipu_anchor"):
        with tf.init_scope(), tf.compat.v1.name_scope(None):
            table._ipu_anchor = tf.Variable(0.0, name=f"{name}/__dummy")
    return tf.convert_to_tensor(table._ipu_anchor)


@ops.RegisterGradient("IpuHostEmbeddingLookup")
def _lookup_gradient(op: tf.Operation, gradient: tf.Tensor) -> list[Any]:
    """Updates the table, and gives the anchor the gradient zero."""
    indices, variable, rate = op.inputs
    updates = []
    if op.get_attr("trains"):
        width = tf.TensorShape(op.get_attr("shape"))[1]
        updates.append(
            native.ops().ipu_host_embedding_update(
                tf.reshape(gradient, [-1, width]),
                tf.reshape(indices, [-1]),
                rate,
                embedding=op.get_attr("embedding"),
                accumulation_factor=op.get_attr("accumulation_factor"),
            )
        )
    with tf.control_dependencies(updates):
        return [None, tf.zeros_like(variable), None]


# --- Lookups ---

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
        check_table(embedding_tensor)
        self._name = name
        self._table = embedding_tensor
        self._partition_strategy = partition_strategy
        self._spec = optimizer_spec or HostEmbeddingOptimizerSpec(0.0)
        if self._spec.trains and not is_assignable(embedding_tensor):
            raise ValueError(
                "embedding_tensor must be a variable to be trained: what is learned has to go "
                f"somewhere. Received: {embedding_tensor!r}"
            )
        self._graph = None if is_eager(embedding_tensor) else embedding_tensor.graph
        # Made now, because a session may finalize its graph.
        self._operations: dict[str, Any] = {}
        with on_host(self._graph):
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
        """Raises an error: it is not supported.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "A HostEmbedding cannot be called. Use its lookup(indices) in the program."
        )

    def get_embedding_tensor(self) -> Any:
        """Returns the table. It has the trained values after the register scope, at the latest."""
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
    check_form(tf.TensorShape(shape), tf.as_dtype(dtype))
    table = make_table(name, shape, tf.as_dtype(dtype), initializer)
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
