"""Patches of TensorFlow's gradients: ops have their forward op, and zeros are marked as zeros.

In programs, the forward op decides layer and user's line of its gradient ops. Once a program has
shards or stages, it also decides their IPU and pipeline stage.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tensorflow.core.framework import attr_value_pb2
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import backprop, record
from tensorflow.python.framework import ops
from tensorflow.python.ops import control_flow_state, gradients_util

from tensorflow_ipu.compiler import trace
from tensorflow_ipu.compiler.ir.program import (
    MULTI_CONV_ATTRIBUTE,
    PHASE_ATTRIBUTE,
    SHARDING_ATTRIBUTE,
    STAGE_ATTRIBUTE,
)

# Attributes that gradient ops inherit from their forward op.
_FOLLOWED = (SHARDING_ATTRIBUTE, STAGE_ATTRIBUTE, PHASE_ATTRIBUTE, MULTI_CONV_ATTRIBUTE)


def install() -> None:
    """Records the forward op of each gradient op in programs; see `tensorflow_hooks`.

    Listings, reports and errors have line and layer from it. Replaces the function that
    `tf.gradients` calls for an op, the gradient function of tapes (also in TensorFlow's runtime,
    which keeps it for good), and the recording of closures by tapes. While no program is traced,
    and no program has had shards or stages, each of them behaves as before.
    """
    graph_gradient = gradients_util._MaybeCompile
    tape_gradient = backprop._gradient_function

    @functools.wraps(graph_gradient)
    def graph_following(scope: str, op: ops.Operation, *args: Any) -> Any:
        # TensorFlow notes it in the graph of the forward op only. Gradients of loops and functions
        # are in graphs of their own.
        with _with_original(op):
            return graph_gradient(scope, op, *args)

    @functools.wraps(tape_gradient)
    def tape_following(
        name: str, attributes: Any, num_inputs: int, inputs: Any, outputs: Any, *args: Any
    ) -> Any:
        forward = _forward_op(name, inputs or (), outputs or ()) if _is_following() else None
        if forward is None:
            return tape_gradient(name, attributes, num_inputs, inputs, outputs, *args)
        with _following(forward):
            return tape_gradient(name, attributes, num_inputs, inputs, outputs, *args)

    gradients_util._MaybeCompile = graph_following
    control_flow_state.ZerosLike = _knowing_zeros(control_flow_state.ZerosLike)
    backprop._gradient_function = tape_following
    pywrap_tfe.TFE_Py_RegisterGradientFunction(tape_following)
    record.record_operation = _recording(record.record_operation)
    record.record_operation_backprop_only = _recording(record.record_operation_backprop_only)


def _knowing_zeros(zeros_like: Callable[..., Any]) -> Callable[..., Any]:
    """Marks the zeros for missing gradients in loops of programs as zeros.

    Gradients of ops with several results leave out the terms of such zeros, as tapes do. For a
    classification loss in a pipeline this saves a softmax and a product.
    """

    @functools.wraps(zeros_like)
    def known_zeros(op: ops.Operation, index: int) -> Any:
        zeros = zeros_like(op, index)
        if trace.in_cluster() and zeros is not None and zeros.op.type == "Const":
            zeros._is_zeros_tensor = True
        return zeros

    return known_zeros


def _is_following() -> bool:
    """Returns whether gradient ops follow their forward op now."""
    return trace.in_cluster() or _follows_shards.is_set()


def _forward_op(
    op_type: str, inputs: Sequence[Any], outputs: Sequence[Any]
) -> ops.Operation | None:
    """Returns the op that a tape differentiates, from the tensors that the tape kept."""
    op = _first_op(outputs)
    if op is not None:
        return op
    for tensor in inputs:
        if not ops.is_symbolic_tensor(tensor):
            continue
        users = [op for op in tensor.consumers() if op.type == op_type]
        return users[0] if len(users) == 1 else next(filter(_takes(inputs), users), None)
    return None


def _takes(inputs: Sequence[Any]) -> Callable[[ops.Operation], bool]:
    """Returns a predicate: whether an op takes all symbolic ones of some tensors."""
    known = {id(tensor) for tensor in inputs if ops.is_symbolic_tensor(tensor)}
    return lambda op: known <= {id(tensor) for tensor in op.inputs}


def _recording(record_on_tapes: Callable[..., None]) -> Callable[..., None]:
    """Makes tapes call gradients that are closures (custom or functions') likewise."""

    @functools.wraps(record_on_tapes)
    def record_following(
        op_type: str,
        output_tensors: Any,
        input_tensors: Any,
        backward_function: Callable[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        forward = _first_op(output_tensors) if _is_following() else None
        following = backward_function

        if forward is not None:

            def following(*gradients: Any) -> Any:
                with _following(forward):
                    return backward_function(*gradients)

        record_on_tapes(op_type, output_tensors, input_tensors, following, *args, **kwargs)

    return record_following


def _first_op(values: Sequence[Any]) -> ops.Operation | None:
    """Returns the op of the first tensor that belongs to a graph."""
    tensors = (getattr(value, "values", value) for value in values)
    return next((tensor.op for tensor in tensors if ops.is_symbolic_tensor(tensor)), None)


@contextlib.contextmanager
def _following(op: ops.Operation) -> Iterator[None]:
    """Context: ops made inside are gradient ops of a forward op."""
    shard = _in_shard_of(op) if _follows_shards.is_set() else contextlib.nullcontext()
    with _with_original(op), shard:
        yield


def _with_original(op: ops.Operation) -> contextlib.AbstractContextManager[None]:
    """Context: ops made inside in a program record their forward op."""
    if not trace.in_cluster():
        return contextlib.nullcontext()
    noted: contextlib.AbstractContextManager[None] = ops.get_default_graph()._original_op(op)
    return noted


# Set once a program has shards or pipeline stages.
_follows_shards = threading.Event()


@functools.cache
def follow_shards() -> None:
    """Makes gradient ops follow their forward op, from the first use of shards or stages on.

    They get its IPU and its pipeline stage, for any scopes open at the call for gradients. In a
    stage they are marked as its backward pass. Gradients of ops that have neither are unchanged.
    Replaces, once in a process, the scope that `tf.gradients` opens for a forward op, and the sum
    of gradients in tapes.
    """
    # Around all that `tf.gradients` makes for a forward op: sums, gradients, dependencies.
    colocate = gradients_util._maybe_colocate_with
    tape_aggregate = backprop._default_vspace.aggregate_fn

    @contextlib.contextmanager
    def colocate_following(op: ops.Operation, *args: Any) -> Iterator[None]:
        with colocate(op, *args), _in_shard_of(op):
            yield

    @functools.wraps(tape_aggregate)
    def tape_aggregate_following(gradients: Any) -> Any:
        made = _first_op(gradients) if len(gradients) > 1 else None
        if made is None:
            return tape_aggregate(gradients)
        # The tape does not say which forward op these are the gradients of.
        with _scopes_replaced(_attributes(made)):
            return tape_aggregate(gradients)

    _follows_shards.set()
    gradients_util._maybe_colocate_with = colocate_following
    space = backprop._default_vspace._replace(aggregate_fn=tape_aggregate_following)
    pywrap_tfe.TFE_Py_RegisterVSpace(space)


def _in_shard_of(op: ops.Operation) -> contextlib.AbstractContextManager[None]:
    """Context: ops made inside take shard and stage of their forward op, as backward ops."""
    attributes = _attributes(op)
    if STAGE_ATTRIBUTE in attributes:
        attributes[PHASE_ATTRIBUTE] = attr_value_pb2.AttrValue(s=b"backward")
    else:
        attributes.pop(PHASE_ATTRIBUTE, None)
    return _scopes_replaced(attributes)


def _attributes(op: ops.Operation) -> dict[str, attr_value_pb2.AttrValue]:
    """Returns the attributes of an op that are in `_FOLLOWED`."""
    # One attribute at a time: `op.node_def` copies all of an op, constants included.
    found = {}
    for name in _FOLLOWED:
        with contextlib.suppress(ValueError):
            value = op.get_attr(name)
            found[name] = (
                attr_value_pb2.AttrValue(s=value)
                if isinstance(value, bytes)
                else attr_value_pb2.AttrValue(i=value)
            )
    return found


@contextlib.contextmanager
def _scopes_replaced(attributes: dict[str, attr_value_pb2.AttrValue]) -> Iterator[None]:
    """Context: ops made inside take these attributes, and no others of `_FOLLOWED`."""
    scopes = ops.get_default_graph()._attr_scope_map
    outer = {name: scopes.pop(name) for name in _FOLLOWED if name in scopes}
    scopes.update(attributes)
    try:
        yield
    finally:
        for name in attributes:
            scopes.pop(name, None)
        scopes.update(outer)
