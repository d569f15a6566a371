"""Graphs of Python functions and of modules; the module `popxl.module`."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tensorflow_ipu.frontends.popxl.core.kinds import ir_method
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.ir import Graph, Ir
from tensorflow_ipu.frontends.popxl.tensor import Tensor, TensorByRef, graph_input

__all__ = ["Module"]


class Module:
    """A function with state: a class whose `build` makes ops.

    Call it to add its ops to the current graph, or pass it to `ir.create_graph`.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `build`."""
        return self.build(*args, **kwargs)

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Makes the ops; classes override it.

        Raises:
            NotImplementedError: If it is not overridden.
        """
        raise NotImplementedError(f"{type(self).__name__} must override `build`.")


_INPUTS = (Tensor, TensorSpec)


_Parameter = inspect.Parameter


@ir_method("create_graph")
def create_graph(
    ir: Ir, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Graph:
    """Makes a graph; see `Ir.create_graph`."""
    name, function = _name_of(fn)
    try:
        signature = inspect.signature(function, follow_wrapped=True)
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ValueError(
            f"The arguments do not match the signature of the function {name}: {error}"
        ) from error
    bound.apply_defaults()
    graph = ir.create_empty_graph(name)
    annotations = _annotations(function, signature)
    with graph:
        for parameter in signature.parameters.values():
            bound.arguments[parameter.name] = _with_inputs(
                parameter, bound.arguments[parameter.name], annotations.get(parameter.name)
            )
        for tensor in _outputs(function(*bound.args, **bound.kwargs), name):
            graph.add_output(tensor)
    return graph


def _name_of(fn: Any) -> tuple[str, Callable[..., Any]]:
    """Returns the graph's name and the function to call."""
    if isinstance(fn, Module):
        return type(fn).__qualname__.replace(".<locals>", ""), fn.build
    if callable(fn) and hasattr(fn, "__qualname__"):
        return fn.__qualname__.replace(".<locals>", ""), fn
    raise TypeError(
        "Callable `fn` must be either a function or a class that extends popxl.Module. Received: "
        f"{fn!r}. Wrap it in a function."
    )


def _annotations(function: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    """Returns the annotations of the parameters, also those given as text."""
    found = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
    if not any(isinstance(annotation, str) for annotation in found.values()):
        return found
    try:
        return {**found, **typing.get_type_hints(inspect.unwrap(function))}
    except (NameError, AttributeError, TypeError):  # names that only type checkers know
        return {name: _written(annotation) for name, annotation in found.items()}


def _written(annotation: Any) -> Any:
    """Resolves an annotation's text to `TensorByRef`, to a list of it, or to a type name."""
    if not isinstance(annotation, str):
        return annotation
    if annotation.split(".")[-1] == "TensorByRef":
        return TensorByRef
    name, bracket, inside = annotation.partition("[")
    if bracket and _written(inside.rstrip("]").split(",")[0]) is TensorByRef:
        return list[TensorByRef]  # type: ignore[valid-type]
    return name


def _with_inputs(parameter: inspect.Parameter, value: Any, annotation: Any) -> Any:
    """Replaces the tensors and specs of an argument by graph inputs."""
    name = parameter.name
    if isinstance(value, _INPUTS):
        return _input(name, value, annotation is TensorByRef)
    if parameter.kind is _Parameter.VAR_KEYWORD:
        if not _has_inputs(name, value.values()):
            return value
        by_ref = annotation is TensorByRef
        return {key: _input(key, item, by_ref) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and _has_inputs(name, value):
        if parameter.kind is _Parameter.VAR_POSITIONAL:
            by_ref = annotation is TensorByRef
        else:
            by_ref = TensorByRef in typing.get_args(annotation)
        inputs = [_input(f"{name}_{i}", item, by_ref) for i, item in enumerate(value)]
        return tuple(inputs) if parameter.kind is _Parameter.VAR_POSITIONAL else inputs
    return value


def _has_inputs(name: str, values: Iterable[Any]) -> bool:
    """Whether values are tensors or specs."""
    found = [isinstance(value, _INPUTS) for value in values]
    if any(found) and not all(found):
        raise TypeError(
            f"The argument `{name}` has a mixture of Tensors and other types. Pass tensors in a "
            "list of their own."
        )
    return bool(found) and all(found)


def _input(name: str, like: Tensor | TensorSpec, by_ref: bool) -> Tensor:
    """Adds an input to the current graph."""
    return graph_input(like.shape, like.dtype, name, by_ref, like.meta_shape)


def _outputs(returned: Any, name: str) -> list[Tensor]:
    """Returns the tensors among the results of a function."""
    if returned is None:
        return []
    if isinstance(returned, Tensor):
        return [returned]
    values = list(returned) if isinstance(returned, Iterable) else [returned]
    if not all(isinstance(value, Tensor) for value in values):
        raise ValueError(
            "Output of subgraph must be None, a Tensor or an iterable of Tensors. Received from "
            f"{name}: {returned!r}"
        )
    return values
