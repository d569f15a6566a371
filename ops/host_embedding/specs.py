"""Optimizer specs of host embeddings: how tables on the host are trained."""

from __future__ import annotations

import operator
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

from tensorflow_ipu.ops.host_embedding import tables
from tensorflow_ipu.runtime import native
from tensorflow_ipu.util.short_repr import shows


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
            slot_vars: what `create_slot_variables` returned.
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
            slot_vars: what `create_slot_variables` returned.
            name: of the host embedding.

        Returns:
            The operation. It fails if the name is not registered.
        """
        del slot_vars
        with tf.device("/device:CPU:0"):
            values = native.ops().ipu_host_embedding_deregister(
                T=embedding_tensor.dtype.base_dtype, shape=embedding_tensor.shape, embedding=name
            )
            if not tables.is_assignable(embedding_tensor):
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
            slot_vars: what `create_slot_variables` returned.
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
