"""Arguments of methods that add nodes, as attributes of the types that their op has."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

import numpy as np
import onnx
from onnx import helper

from tensorflow_ipu.frontends.popart import enums, signatures
from tensorflow_ipu.frontends.popart.model import tensors

_A = onnx.AttributeProto
# Type of an attribute by its number; or what converts an argument to its value.
Type = Union[int, Callable[[Any], Any]]


def _name_of(kind: type[enums.Enumeration]) -> Type:
    """Returns a function that returns the name of a member of an enumeration."""
    check = signatures.member(kind)
    return lambda value: str(check(value).name)


# Annotation of a parameter -> type of the attribute. Others are not converted.
_ANNOTATED: dict[str, Type] = {
    "int": _A.INT,
    "bool": _A.INT,
    "float": _A.FLOAT,
    "str": _A.STRING,
    "list[int]": _A.INTS,
    "list[float]": _A.FLOATS,
    "list[str]": _A.STRINGS,
    # These are kept by name.
    **{kind.__name__: _name_of(kind) for kind in (enums.ReductionType, enums.ScatterReduction)},
}


def types_of(signature: inspect.Signature) -> dict[str, Type]:
    """Returns the attribute types of parameters, by their annotations.

    Args:
        signature: of a method.
    """
    annotations = {
        name: str(parameter.annotation).removesuffix(" | None")
        for name, parameter in signature.parameters.items()
    }
    return {name: _ANNOTATED[text] for name, text in annotations.items() if text in _ANNOTATED}


def input_ids(args: Any) -> list[str]:
    """Returns the ids of the inputs of a node.

    Args:
        args: a sequence of ids.

    Raises:
        TypeError: If it is anything else.
    """
    found = list(_iterable(args))
    if not all(isinstance(name, str) for name in found):
        raise TypeError(f"Expected a list of tensor ids; received {args!r}.")
    return found


def attribute(name: str, value: Any, type_: Type | None) -> Any:
    """Returns an argument as the attribute of a node holds it.

    Args:
        name: the attribute.
        value: the argument.
        type_: type of the attribute, or what converts the argument; None to take it as it is.

    Raises:
        TypeError: If the argument cannot be converted.
    """
    convert = type_ if callable(type_) else _CONVERTERS.get(type_ or _A.UNDEFINED)
    if convert is None:
        value = int(value) if isinstance(value, enums.Enumeration) else value
        return list(value) if isinstance(value, tuple) else value
    try:
        found = convert(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"The argument {name} is {value!r}: {error}") from error
    # An empty list does not say of what type its elements are.
    if found == [] and isinstance(type_, int):
        return helper.make_attribute(name, [], attr_type=type_)
    return found


def _iterable(value: Any) -> Iterable[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, (Iterable, np.ndarray)):
        raise TypeError(f"expected a list; received {type(value).__name__}")
    return value


def _tensor(value: Any) -> onnx.TensorProto:
    """Returns a tensor; Python's floats are FLOAT."""
    if isinstance(value, onnx.TensorProto):
        return value
    array = np.asarray(value)
    if array.dtype == np.float64 and not isinstance(value, (np.ndarray, np.generic)):
        array = array.astype(np.float32)
    return tensors.made(array)


_CONVERTERS: Mapping[int, Callable[[Any], Any]] = {
    _A.INT: signatures.integer,
    _A.FLOAT: signatures.floating,
    _A.STRING: signatures.text,
    _A.INTS: lambda value: [signatures.integer(v) for v in _iterable(value)],
    _A.FLOATS: lambda value: [signatures.floating(v) for v in _iterable(value)],
    _A.STRINGS: lambda value: [signatures.text(v) for v in _iterable(value)],
    _A.TENSOR: _tensor,
}
