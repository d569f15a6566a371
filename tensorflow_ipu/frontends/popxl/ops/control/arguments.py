"""Checks what is passed to a graph that is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tensorflow_ipu.frontends.popxl import context, utils
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.graph import Graph
from tensorflow_ipu.frontends.popxl.tensor import Tensor, constant

# For an input that is left out.
_NOTHING = object()


def bind(
    graph: Graph, inputs: Sequence[Any], by_input: Mapping[Tensor, Any], check: bool, role: str = ""
) -> list[Tensor]:
    """Returns the tensor of the current graph for each input of a graph.

    Args:
        graph: the graph that is called.
        inputs: values by position, with iterables of values among them.
        by_input: values by input of the graph.
        check: whether inputs without a value are refused; else they are zero.
        role: what the graph is to the op, for errors.

    Raises:
        ValueError: If there are too many inputs or too few, or tensors are in other graphs.
        TypeError: If a value cannot become a tensor.
        popart.popart_exception: If shape or type of a tensor is not that of the input.
    """
    positional = list(_flat(inputs))
    if len(positional) > len(graph.inputs):
        raise ValueError(
            f"Too many inputs have been provided{role}: {len(positional)} for the "
            f"{len(graph.inputs)} inputs of {graph!r}."
        )
    known = set(graph.inputs)
    bound: dict[Tensor, Any] = dict(zip(graph.inputs, positional))
    for tensor, value in by_input.items():
        if not isinstance(tensor, Tensor) or tensor not in known:
            raise ValueError(
                f"{tensor!r} is not in the called graph, {graph!r}, as one of its inputs: "
                f"{list(graph.inputs)}"
            )
        if tensor in bound:
            raise ValueError(
                f"Graph input tensor is specified twice: {tensor!r}, by position and in the "
                "dictionary of inputs."
            )
        bound[tensor] = value
    if check:
        _check_complete(graph, bound, role)
    return [_as_input(tensor, bound.get(tensor, _NOTHING)) for tensor in graph.inputs]


def _flat(inputs: Iterable[Any]) -> Iterable[Any]:
    """Yields values, and those of iterables among them."""
    for value in inputs:
        if isinstance(value, (Tensor, str)) or not isinstance(value, Iterable):
            yield value
        elif hasattr(value, "shape") and not value.shape:
            yield value
        else:
            yield from value


def _check_complete(graph: Graph, bound: Mapping[Tensor, Any], role: str) -> None:
    """Refuses calls that leave out inputs."""
    missing = [tensor for tensor in graph.inputs if tensor not in bound]
    if missing:
        header = ("input", "shape", "dtype")
        rows = [(tensor.name, tensor.shape, tensor.dtype.name) for tensor in missing]
        known = [(tensor.name, value) for tensor, value in bound.items()]
        raise ValueError(
            f"Not enough inputs have been provided{role}: {len(bound)} of {len(graph.inputs)}.\n"
            f"Missing:\n{utils.table_to_string([header, *rows])}"
            f"Connected:\n{utils.table_to_string([('input', 'tensor'), *known])}"
        )


def _as_input(wanted: Tensor, value: Any) -> Tensor:
    """Returns a tensor for an input."""
    current = context.get_current_graph()
    if value is _NOTHING:
        value = constant(np.zeros(wanted.shape, wanted.dtype.as_numpy()), wanted.dtype)
    if not isinstance(value, Tensor):
        value = _as_constant(wanted, value)
    if value.graph is not current:
        raise ValueError(f"{value!r} is not in parent graph {current!r}, but in {value.graph!r}.")
    same = (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
    if not same or value.meta_shape != wanted.meta_shape:
        raise popart_exception(
            f"The tensor {value!r} does not match callee input tensor {wanted!r}: shape, type and "
            "meta shape must be the same."
        )
    return value


def _as_constant(wanted: Tensor, value: Any) -> Tensor:
    """Returns a constant of the type of an input."""
    try:
        if value is None or isinstance(value, str):
            raise TypeError("it is no number or array")
        array = utils.to_numpy(value, wanted.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"The value {value!r} for {wanted!r} could not be coerced into a tensor: {error}"
        ) from error
    return constant(array, wanted.dtype)
