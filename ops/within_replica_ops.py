"""Collectives between the IPUs of one replica: the public module `ipu.within_replica_ops`.

Each takes a list of tensors, the i-th of which is on shard i, and returns a list of as many, of
which again the i-th is on shard i. The copies between IPUs are in `Executable.copies`.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tensorflow_ipu.api import scopes
from tensorflow_ipu.compiler.ir.program import SHARD_INPUT_ATTRIBUTE

_PREFIX = "COLLECTIVE_OP_"
_LOGICAL: dict[str, Callable[..., tf.Tensor]] = {
    f"{_PREFIX}LOGICAL_AND": tf.logical_and,
    f"{_PREFIX}LOGICAL_OR": tf.logical_or,
}
_REDUCTIONS: dict[str, Callable[..., tf.Tensor]] = {
    f"{_PREFIX}ADD": tf.add,
    f"{_PREFIX}MUL": tf.multiply,
    f"{_PREFIX}MIN": tf.minimum,
    f"{_PREFIX}MAX": tf.maximum,
    f"{_PREFIX}SQUARE_ADD": tf.add,
    **_LOGICAL,
}
_LOCAL = f"{_PREFIX}LOCAL"
# Added and multiplied in float32 and rounded once, as collectives over replicas are.
_WIDENED = (tf.float16, tf.bfloat16)


def all_gather(input_shards: Any, axis: int = 0, name: str | None = None) -> list[tf.Tensor]:
    """Concatenates the tensors of all shards on every shard.

    Args:
        input_shards: the tensors, the i-th on shard i; all of one type and rank, and of the same
            shape but for `axis`. Scalars count as vectors of length 1.
        axis: along which dimension; negative ones count from the end.
        name: name for the ops.

    Returns:
        The concatenation, in the order of the shards, on each of them.

    Raises:
        TypeError: `input_shards` is not a list.
        ValueError: it is empty or has a tensor twice, or the tensors do not fit each other.
    """
    with tf.name_scope(name or "within_replica_all_gather"):
        shards = _shards(input_shards)
        axis = _axis(axis, shards)
        _check_shapes(shards, axis)
        return [_on_shard(index, lambda: tf.concat(shards, axis)) for index in range(len(shards))]


def all_reduce(
    input_shards: Any, op: str = "COLLECTIVE_OP_ADD", name: str | None = None
) -> list[tf.Tensor]:
    """Reduces the tensors of all shards on every shard.

    Args:
        input_shards: the tensors, the i-th on shard i; all of one type and rank. Vectors may have
            different lengths: the shorter ones are padded with zeros. Scalars count as vectors of
            length 1.
        op: one of `COLLECTIVE_OP_ADD`, `COLLECTIVE_OP_MUL`, `COLLECTIVE_OP_MIN`,
            `COLLECTIVE_OP_MAX`; `COLLECTIVE_OP_LOGICAL_AND` and `COLLECTIVE_OP_LOGICAL_OR`, of
            booleans; `COLLECTIVE_OP_SQUARE_ADD`, which adds squares; `COLLECTIVE_OP_LOCAL`, which
            reduces nothing.
        name: name for the ops.

    Returns:
        The reduction on each shard, of the length of the longest vector. With
        `COLLECTIVE_OP_LOCAL` each shard's own tensor, padded.

    Raises:
        TypeError: `input_shards` is not a list, or the op cannot reduce tensors of that type.
        ValueError: it is empty or has a tensor twice, the tensors do not fit each other, or there
            is no such op.
    """
    with tf.name_scope(name or "within_replica_all_reduce"):
        return _reduced(_padded(_shards(input_shards)), op)


def reduce_scatter(
    input_shards: Any, op: str = "COLLECTIVE_OP_ADD", name: str | None = None
) -> list[tf.Tensor]:
    """Reduces the tensors of all shards, each shard keeping a slice.

    Args:
        input_shards: scalars or vectors, see `all_reduce`.
        op: see `all_reduce`.
        name: name for the ops.

    Returns:
        Vectors of k elements, where k is the length of the longest input divided by the number of
        shards, rounded up. The elements of the reduction are spread over them in their order, as
        evenly as possible: the first ones have k, the others one less and a zero.

    Raises:
        TypeError: see `all_reduce`.
        ValueError: see `all_reduce`, or the tensors have more than one dimension.
    """
    with tf.name_scope(name or "within_replica_reduce_scatter"):
        shards = _shards(input_shards)
        if shards[0].shape.rank > 1:
            raise ValueError(
                "reduce_scatter within a replica takes scalars and vectors. Received tensors of "
                f"rank {shards[0].shape.rank}: flatten them with tf.reshape(x, [-1])."
            )
        count = len(shards)
        reduced = _reduced(_padded(shards), op)
        return [
            _on_shard(index, functools.partial(_slice, reduced[index], index, count))
            for index in range(count)
        ]


def _slice(vector: tf.Tensor, index: int, count: int) -> tf.Tensor:
    """Returns part `index` of a vector that is spread over `count` parts of one length."""
    least, more = divmod(vector.shape[0], count)  # the first `more` parts have one more
    begin = index * least + min(index, more)
    part = vector[begin : begin + least + (index < more)]
    return tf.pad(part, [[0, 1]]) if index >= more > 0 else part


def _on_shard(index: int, make: Callable[[], tf.Tensor]) -> tf.Tensor:
    """Returns a tensor that is made on a shard."""
    with scopes.ipu_shard(index):
        return make()


def _shards(input_shards: Any) -> list[tf.Tensor]:
    """Checks and converts the inputs; scalars become vectors."""
    if not isinstance(input_shards, (list, tuple)):
        raise TypeError(
            "input_shards must be a list of tensors, one for each shard. Received: "
            f"{type(input_shards).__name__}"
        )
    if not input_shards:
        raise ValueError("input_shards must have at least one tensor. Received an empty list.")
    if len({id(shard) for shard in input_shards}) < len(input_shards):
        raise ValueError(
            "input_shards should not contain any duplicate entries: each shard has a tensor of "
            f"its own. Received: {input_shards!r}"
        )
    tensors = [
        _on_shard(index, functools.partial(_input, index, shard))
        for index, shard in enumerate(input_shards)
    ]
    _check_alike(tensors)
    if tensors[0].shape.rank > 0:
        return tensors
    return [
        _on_shard(index, functools.partial(tf.reshape, tensor, [1]))
        for index, tensor in enumerate(tensors)
    ]


def _input(index: int, shard: Any) -> tf.Tensor:
    """Returns an input as a tensor, whose shard is checked when the program is compiled."""
    tensor = tf.convert_to_tensor(shard)
    if tf.executing_eagerly():
        return tensor
    noted = tf.identity(tensor)
    noted.op._set_attr(SHARD_INPUT_ATTRIBUTE, attr_value_pb2.AttrValue(i=index))
    return noted


def _check_alike(tensors: list[tf.Tensor]) -> None:
    types = [tensor.dtype.name for tensor in tensors]
    if len(set(types)) > 1:
        raise ValueError(f"Expected tensors to all be of the same type. Received: {types}")
    ranks = [tensor.shape.rank for tensor in tensors]
    if len(set(ranks)) > 1 or ranks[0] is None:
        raise ValueError(
            f"Expected tensors to all have the same rank, known when the program is built. "
            f"Received: {ranks}"
        )


def _axis(axis: int, shards: list[tf.Tensor]) -> int:
    rank = shards[0].shape.rank
    if isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank:
        raise ValueError(
            f"axis must be an int from {-rank} to {rank - 1} for tensors of rank {rank}. "
            f"Received: axis={axis!r}"
        )
    return axis % rank


def _check_shapes(shards: list[tf.Tensor], but: int | None = None) -> None:
    """Checks that shapes are equal, except for one dimension."""
    for shard in shards:
        pairs = enumerate(zip(shards[0].shape, shard.shape))
        if any(a != b for index, (a, b) in pairs if index != but):
            exception = "" if but is None else f" except for dimension {but}"
            raise ValueError(
                f"Expected tensors of the same shape{exception}. Received: "
                f"{[tuple(tensor.shape) for tensor in shards]}"
            )


def _padded(shards: list[tf.Tensor]) -> list[tf.Tensor]:
    """Pads vectors with zeros to the longest."""
    if shards[0].shape.rank > 1:
        _check_shapes(shards)
        return shards
    lengths = [shard.shape[0] for shard in shards]
    if None in lengths:
        raise ValueError(f"Expected vectors of known length. Received lengths: {lengths}")
    length = max(lengths)
    return [
        _on_shard(index, functools.partial(tf.pad, shard, [[0, length - shard.shape[0]]]))
        if shard.shape[0] < length
        else shard
        for index, shard in enumerate(shards)
    ]


def _reduced(shards: list[tf.Tensor], op: str) -> list[tf.Tensor]:
    """Reduces tensors of one shape, on the first shard, and copies the result to all."""
    if op != _LOCAL and op not in _REDUCTIONS:
        known = ", ".join([*_REDUCTIONS, _LOCAL])
        raise ValueError(f"op must be one of {known}. Received: op={op!r}")
    dtype = shards[0].dtype
    if op != _LOCAL and (op in _LOGICAL) != (dtype == tf.bool):
        raise TypeError(f"{op} cannot reduce tensors of the type {dtype.name}.")
    if op == _LOCAL:
        return [
            _on_shard(index, functools.partial(tf.identity, shard))
            for index, shard in enumerate(shards)
        ]

    def reduce() -> tf.Tensor:
        wide = [tf.cast(s, tf.float32) if dtype in _WIDENED else s for s in shards]
        if op == f"{_PREFIX}SQUARE_ADD":
            wide = [tf.square(shard) for shard in wide]
        return tf.cast(functools.reduce(_REDUCTIONS[op], wide), dtype)

    total = _on_shard(0, reduce)
    return [_on_shard(index, functools.partial(tf.identity, total)) for index in range(len(shards))]
