"""Checked insertion of ops into the current graph, shared by all of `popxl.ops`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from tensorflow_ipu.frontends.common.errors import UndefinedValue
from tensorflow_ipu.frontends.popxl import context
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind
from tensorflow_ipu.frontends.popxl.tensor import Tensor

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.ir import Graph, Op


# The functions of ops are in these modules, and this one.
_MODULES = (__name__, f"{__name__.rpartition('.')[0]}.ops.")


def add(kind: OpKind, *tensors: Tensor, name: str | None = None, **attributes: Any) -> Tensor:
    """Adds an op with one output to the current graph.

    Args:
        kind: the op.
        *tensors: its inputs, tensors of the current graph on one IPU.
        name: name of the output; the type of the op by default.
        **attributes: its attributes.

    Returns:
        The output.

    Raises:
        TypeError: If an input is no tensor.
        ValueError: If an input is in another graph, or inputs are on different IPUs.
        popart.popart_exception: If the op does not take such inputs.
    """
    return add_all(kind, tensors, [name] if name else None, **attributes)[0]


def add_all(
    kind: OpKind, tensors: Sequence[Tensor], names: Sequence[str] | None = None, **attributes: Any
) -> list[Tensor]:
    """Adds an op with any number of outputs to the current graph.

    Args:
        kind: the op.
        tensors: its inputs, tensors of the current graph on one IPU.
        names: names of the outputs; the type of the op by default.
        **attributes: its attributes.

    Returns:
        The outputs.

    Raises:
        Exception: As `add` does.
    """
    graph = context.get_current_graph()
    check_in_graph(graph, tensors)
    check_same_place(tensors)
    specs = kind.infer([tensor.spec for tensor in tensors], **attributes)
    default = [kind.output_name] * len(specs)
    return add_op(kind, tensors, names or default, specs, (), attributes).outputs


def add_op(
    kind: OpKind,
    tensors: Sequence[Tensor],
    names: Sequence[str],
    specs: Sequence[Any],
    called: Sequence[Graph],
    attributes: dict[str, Any],
) -> Op:
    """Adds an op to the current graph whose inputs are checked, and whose outputs are known.

    Args:
        kind: the op.
        tensors: its inputs.
        names: names of the outputs.
        specs: shapes and types of the outputs.
        called: graphs that it runs.
        attributes: its attributes.
    """
    return context.get_current_graph().add_op(kind, tensors, attributes, names, specs, called)


def check_in_graph(graph: Graph, tensors: Sequence[Any]) -> None:
    """Raises if a value is not a tensor of the given graph.

    Args:
        graph: the graph.
        tensors: the values to check.

    Raises:
        TypeError: If one is no tensor.
        ValueError: If one is in another graph.
    """
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"{tensor!r} is not a Tensor but {type(tensor).__name__}. Make a constant of it: "
                "popxl.constant(value)."
            )
        if tensor.graph is not graph:
            raise ValueError(
                f"{tensor!r} is not in the current Graph, {graph!r}, but in {tensor.graph!r}. Pass "
                "it to the graph as an input."
            )


def check_tensor(t: Any) -> None:
    """Raises if a value is not a tensor of the current graph, before its shape is read.

    Args:
        t: the value to check.

    Raises:
        TypeError: If it is no tensor.
        ValueError: If it is in another graph.
    """
    check_in_graph(context.get_current_graph(), [t])


def check_same_place(tensors: Sequence[Tensor]) -> None:
    """Refuses tensors on different IPUs or tile sets.

    Args:
        tensors: tensors, some of which may not have a place yet.

    Raises:
        ValueError: If two have different places.
    """
    if len(tensors) < 2:
        return
    for name, what in (("ipu", "IPUs"), ("tile_set", "tile sets")):
        places = [(tensor, _place(tensor, name)) for tensor in tensors]
        known = [(tensor, place) for tensor, place in places if place is not None]
        for tensor, place in known:
            if place != known[0][1]:
                named = zip(_names([known[0][0], tensor]), (known[0], (tensor, place)))
                found = " and ".join(f"`{name}` ({t.id}) on {at}" for name, (t, at) in named)
                raise ValueError(
                    f"The tensors are located on different {what}: {found}. Copy them first: "
                    "ops.ipu_copy, or ops.io_tile_copy."
                )


def _names(tensors: Sequence[Tensor]) -> list[str]:
    """Returns the argument names of the op's function for its tensors.

    Args:
        tensors: tensors that were passed to it, also in a list.
    """
    found = [tensor.name for tensor in tensors]
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_MODULES):
        arguments = inspect.getargvalues(frame)
        values = {name: frame.f_locals.get(name) for name in arguments.args}
        if arguments.varargs is not None:
            values[arguments.varargs] = frame.f_locals[arguments.varargs]
        for name, value in values.items():
            for number, tensor in enumerate(tensors):
                if value is tensor:
                    found[number] = name
                elif isinstance(value, (list, tuple)) and any(part is tensor for part in value):
                    place = next(i for i, part in enumerate(value) if part is tensor)
                    found[number] = f"{name}[{place}]"
        frame = frame.f_back
    return found


def _place(tensor: Tensor, name: str) -> Any:
    """Returns where a tensor is; None where that is not known."""
    try:
        return getattr(tensor, name)
    except UndefinedValue:
        return None
