"""Methods that add a node each, made from their signatures."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import onnx

from tensorflow_ipu.frontends.popart import datatypes, signatures
from tensorflow_ipu.frontends.popart.building import arguments, texts
from tensorflow_ipu.frontends.popart.debug_info import as_context

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popart.building.core import BuilderCore

_Method = Callable[..., Any]
# Parameters of methods that are no attributes of the node.
_NOT_ATTRIBUTES = ("self", "args", "num_outputs", "debugContext", "debug_context", "debugPrefix")


class CoreOpset:
    """The ops of one version of a domain, as methods that add nodes to a graph.

    Attributes:
        domain: The domain of the ops; "" is that of ONNX.
        version: Its version.
    """

    domain = ""
    version = 0

    def __init__(self, core: BuilderCore) -> None:
        """Takes the builder that nodes are added to.

        Args:
            core: the builder.
        """
        self._core = core

    def __repr__(self) -> str:
        return type(self).__name__


def node(
    type_: str,
    outputs: int | None = 1,
    returns_list: bool = False,
    inputs: str = "",
    types: Mapping[str, arguments.Type] | None = None,
) -> Callable[[_Method], _Method]:
    """Makes a method that adds a node of a function that only has the signature.

    The parameter `args` has the inputs, `num_outputs` the number of outputs, and one of the names
    of `debugContext` the name of the node. All others are attributes of the node; None leaves one
    out, and an underscore at the end is not part of the name.

    Args:
        type_: the op.
        outputs: how many outputs it has, if there is no parameter for that.
        returns_list: whether the method returns a list although there is one output.
        inputs: names of the inputs, for the docstring; empty if the function has a whole one.
        types: types of attributes, to which arguments are converted; by default those that
            annotations say.
    """

    def make(function: _Method) -> _Method:
        signature = inspect.signature(function)
        kinds = arguments.types_of(signature) if types is None else types

        @functools.wraps(function)
        def add(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                given = bound.arguments
                added = _inputs(given.get("args", ()), kinds)
                attributes = _attributes(given, kinds)
                context = as_context(_debug_context(given))
            except TypeError as error:
                raise signatures.refused(function.__name__, signature, str(error)) from error
            opset = given["self"]
            count = given.get("num_outputs", outputs)
            ids = opset._core.add_node(
                type_, opset.domain, opset.version, added, count, attributes, context
            )
            return _result(ids, returns_list or "num_outputs" in given)

        if inputs:
            add.__doc__ = texts.with_arguments(function.__doc__ or "", signature, inputs)
        return signatures.checks_itself(add)

    return make


def _inputs(args: Any, types: Mapping[str, arguments.Type]) -> list[str]:
    """Returns the ids of inputs: of one if the parameter is a text."""
    is_one = types.get("args") == onnx.AttributeProto.STRING
    return arguments.input_ids([args] if is_one else args)


def _debug_context(given: Mapping[str, Any]) -> Any:
    names = ("debugContext", "debug_context", "debugPrefix")
    return next((given[name] for name in names if name in given), "")


def _attributes(given: Mapping[str, Any], types: Mapping[str, arguments.Type]) -> dict[str, Any]:
    """Returns the attributes of a node as an ONNX file holds them."""
    return {
        (key := name.rstrip("_")): arguments.attribute(key, value, types.get(name))
        for name, value in given.items()
        if name not in _NOT_ATTRIBUTES and value is not None
    }


def _result(ids: list[str], is_list: bool) -> Any:
    """Returns the ids of outputs as a method does: one alone, or a list."""
    if not ids:
        return None
    return ids if is_list or len(ids) > 1 else ids[0]


def onnx_number(name: Any) -> int:
    """Returns ONNX's number of a type.

    Args:
        name: the name, such as "FLOAT", or the number.

    Raises:
        TypeError: If it is neither.
        popart_exception: If there is no such type.
    """
    if not isinstance(name, (str, int)):
        raise TypeError("expected the name of a type")
    return name if isinstance(name, int) else datatypes.named(name).onnx
