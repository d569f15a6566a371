"""Methods that add one node each: arguments, docstrings, and the opsets 6 to 11 of ONNX."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, Union

import numpy as np
import onnx
from onnx import defs, helper

from tensorflow_ipu.frontends.common import enums
from tensorflow_ipu.frontends.popart import datatypes, onnx_files, signatures
from tensorflow_ipu.frontends.popart.builder.graph import ONNX_DOMAIN
from tensorflow_ipu.frontends.popart.debug_info import DebugContext, as_context
from tensorflow_ipu.frontends.popart.signatures import checked

# --- Methods and their arguments ---

_A = onnx.AttributeProto


# Type of an attribute by its number, or a function that converts an argument to its value.
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
        type_: type of the attribute, or a converter of the argument; None for no conversion.

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
    # An empty list has no elements to infer a type from.
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
    return onnx_files.made(array)


_CONVERTERS: Mapping[int, Callable[[Any], Any]] = {
    _A.INT: signatures.integer,
    _A.FLOAT: signatures.floating,
    _A.STRING: signatures.text,
    _A.INTS: lambda value: [signatures.integer(v) for v in _iterable(value)],
    _A.FLOATS: lambda value: [signatures.floating(v) for v in _iterable(value)],
    _A.STRINGS: lambda value: [signatures.text(v) for v in _iterable(value)],
    _A.TENSOR: _tensor,
}


# Parameter that methods of several ops share -> its meaning.
_COMMON: Mapping[str, str] = {
    "axes": "dimensions of the op.",
    "axis": "dimension of the op; -1 for the last.",
    "axis_size": "size of the result in that dimension.",
    "beam_width": "labels that are kept at each step of the search.",
    "blank": "class of the blank.",
    "blocksize": "width and height of a block.",
    "closeBracket": "text after a dimension.",
    "collectiveOperator": "how values are reduced; sums by default.",
    "commGroup": "the replicas; all by default.",
    "debugContext": "name of the node, or its debug context.",
    "debugPrefix": "name of the node, or its debug context.",
    "debug_context": "name of the node, or its debug context.",
    "degree": "of the splines.",
    "descending": "1 for the greatest first.",
    "digits": "digits of a number.",
    "dimensions": "dimensions to reverse.",
    "edgeItems": "elements at each end of a dimension that is shortened.",
    "enable_index_broadcast": "1 if an index of one dimension stands for all others.",
    "ends": "first position of each axis that is not taken.",
    "epsilon": "summand of variances.",
    "floatFormat": "number of the format: 0 for automatic, 1 for fixed, 2 for scientific.",
    "group_size": "number of groups.",
    "ignoreIndex": "label without a loss.",
    "increment": "the summand.",
    "inputIsLogProbability": "whether the first input has logarithms of probabilities.",
    "keepdims": "1 to keep dimensions of size 1.",
    "lambda_": "factor on the sum.",
    "maxLineWidth": "characters of a line.",
    "mode": '"DCR" for depth, column, row; "CRD" for column, row, depth.',
    "modulus": "the divisor.",
    "momentum": "share that running mean and variance keep.",
    "noOverlap": "1 if slices of several calls never overlap.",
    "num_groups": "number of groups of channels.",
    "num_outputs": "number of its outputs.",
    "openBracket": "text before a dimension.",
    "outputFullSequence": "1 for the outputs of all steps, 0 for the last one.",
    "print_gradient": "1 to print the gradient, too.",
    "ratio": "share of the values that are dropped.",
    "reduction": "how values are reduced to one.",
    "remap_type": "when: 0 forwards and backwards, 1 forwards, 2 backwards.",
    "right": "1 if a bucket has its right boundary.",
    "scale": "factor on values.",
    "scale0": "factor on the first input.",
    "scale1": "factor on the second input.",
    "separator": "text between elements.",
    "shape": "the shape.",
    "sizes": "of the slice, along each of the axes.",
    "stable": "1 if equal elements keep their order.",
    "starts": "first position of each axis that is taken.",
    "strides": "distance between the elements taken, along each dimension.",
    "summariseThreshold": "elements from which on a tensor is shortened.",
    "title": "heading; the name of the tensor if it is empty.",
    "to": "the type, by its name or ONNX's number.",
    "top_paths": "number of labels that are returned.",
    "zeroUnused": "1 to set other rows of the result to zero.",
}


def with_arguments(
    text: str,
    signature: inspect.Signature,
    inputs: str,
    attributes: Mapping[str, str] | None = None,
) -> str:
    """Returns the docstring of a method: its lead, and a line for each parameter.

    Args:
        text: its lead.
        signature: of the method.
        inputs: names of the inputs of the op.
        attributes: meanings of attributes; others are in the table of shared ones.
    """
    texts = {"args": f"ids of the inputs: {inputs}.", **_COMMON, **(attributes or {})}
    names = [name for name in signature.parameters if name != "self"]
    lines = [f"    {name}: {texts[name]}" for name in names]
    result = "The id of the output, or a list of ids if there are several."
    return "\n".join([text, "", "Args:", *lines, "", "Returns:", f"    {result}"])


_Method = Callable[..., Any]


# Parameters of methods that are no attributes of the node.
_NOT_ATTRIBUTES = ("self", "args", "num_outputs", "debugContext", "debug_context", "debugPrefix")


class NodeAdder(Protocol):
    """A builder, as opsets see it."""

    def add_node(
        self,
        type_: str,
        domain: str,
        version: int,
        inputs: Sequence[str],
        outputs: int,
        attributes: Mapping[str, Any],
        context: DebugContext,
    ) -> list[str]:
        """Adds a node.

        Args:
            type_: its op.
            domain: the domain of the op.
            version: version of the domain.
            inputs: ids of its inputs; "" for omitted optional ones.
            outputs: number of its outputs.
            attributes: its attributes.
            context: its name and source line.

        Returns:
            Ids of its outputs.
        """


class CoreOpset:
    """The ops of one version of a domain, as methods that add nodes to a graph.

    Attributes:
        domain: The domain of the ops; "" is that of ONNX.
        version: Its version.
    """

    domain = ""
    version = 0

    def __init__(self, core: NodeAdder) -> None:
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
    types: Mapping[str, Type] | None = None,
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
        kinds = types_of(signature) if types is None else types

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
            add.__doc__ = with_arguments(function.__doc__ or "", signature, inputs)
        return signatures.checks_itself(add)

    return make


def _inputs(args: Any, types: Mapping[str, Type]) -> list[str]:
    """Returns the ids of inputs: of one if the parameter is a text."""
    is_one = types.get("args") == onnx.AttributeProto.STRING
    return input_ids([args] if is_one else args)


def _debug_context(given: Mapping[str, Any]) -> Any:
    names = ("debugContext", "debug_context", "debugPrefix")
    return next((given[name] for name in names if name in given), "")


def _attributes(given: Mapping[str, Any], types: Mapping[str, Type]) -> dict[str, Any]:
    """Returns the attributes of a node as an ONNX file holds them."""
    return {
        (key := name.rstrip("_")): attribute(key, value, types.get(name))
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


# --- The opsets of ONNX, made from its schemas ---

VERSIONS = (6, 7, 8, 9, 10, 11)


DEFAULT_VERSION = 10


_RENAMED = {"And": "logical_and", "Or": "logical_or", "Not": "logical_not", "Xor": "logical_xor"}


_RENAMED["If"] = "logical_if"


# Attributes that nodes have only if they are passed, so that programs can add them.
_UNWRITTEN = {(type_, "direction") for type_ in ("RNN", "GRU", "LSTM")}


_EMPTY = inspect.Parameter.empty


@checked
class OnnxOpset(CoreOpset):
    """The ops of one version of ONNX."""

    domain = ONNX_DOMAIN

    def constant(self, value: Any, is_value_sparse: Any = False, debugContext: Any = "") -> str:
        """Adds a constant.

        Args:
            value: the array.
            is_value_sparse: whether it is written as a sparse tensor, which no session takes. The
                name of the node may stand in its place.
            debugContext: name of the node.

        Returns:
            The id of the tensor.

        Raises:
            popart_exception: If the type of the array is not supported.
        """
        if isinstance(is_value_sparse, (str, DebugContext)):
            is_value_sparse, debugContext = False, is_value_sparse
        array = np.asarray(value)
        datatypes.of_data(array)
        attributes: dict[str, Any] = {"value": onnx_files.made(array)}
        if is_value_sparse:
            attributes = {"sparse_value": _sparse(array)}
        context = as_context(debugContext)
        ids = self._core.add_node("Constant", ONNX_DOMAIN, self.version, [], 1, attributes, context)
        return str(ids[0])


def _sparse(array: np.ndarray) -> onnx.SparseTensorProto:
    """Returns a sparse tensor with the elements of an array that are not zero."""
    flat = array.reshape(-1)
    (places,) = np.nonzero(flat)
    indices = onnx_files.made(places.astype(np.int64))
    return helper.make_sparse_tensor(onnx_files.made(flat[places]), indices, array.shape)


def _schemas(version: int) -> list[Any]:
    """Returns the schemas of the ops of an opset, also of those that it deprecates."""
    newest: dict[str, Any] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == ONNX_DOMAIN and schema.since_version <= version:
            known = newest.get(schema.name)
            older = known is not None and known.since_version > schema.since_version
            if not schema.deprecated and not older:
                newest[schema.name] = schema
    return list(newest.values())


def _default(attribute: Any) -> Any:
    """Returns the default of a parameter."""
    if attribute.required:
        return _EMPTY
    default = attribute.default_value
    fields = {"FLOAT": "f", "INT": "i", "STRING": "s", "INTS": "ints", "FLOATS": "floats"}
    kind = default.AttributeType.Name(default.type)
    if kind not in fields:
        return None
    value = getattr(default, fields[kind])
    if kind == "STRING":
        return value.decode()
    return list(value) if kind.endswith("S") else value


def _takes_output_count(schema: Any) -> bool:
    """Returns whether the method of an op takes the number of outputs: if that is not fixed."""
    return bool(schema.min_output < schema.max_output or schema.name == "MaxPool")


def _signature(schema: Any) -> inspect.Signature:
    """Returns the signature of the method of an op: attributes that are required come first."""
    attributes = [
        (name, None if (schema.name, name) in _UNWRITTEN else _default(a))
        for name, a in schema.attributes.items()
        if name != "auto_pad"
    ]
    attributes.sort(key=lambda pair: (pair[1] is not _EMPTY, pair[0]))
    parameters = ["self", "args", *(["num_outputs"] if _takes_output_count(schema) else [])]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature(
        [
            *(
                inspect.Parameter(name, kind)
                for name in parameters
                if schema.max_input or name != "args"
            ),
            *(inspect.Parameter(name, kind, default=default) for name, default in attributes),
            inspect.Parameter("debugContext", kind, default=""),
        ]
    )


def _types(schema: Any) -> dict[str, Type]:
    """Returns the types of the attributes of an op; Cast takes names of types."""
    types: dict[str, Type] = {
        name: int(attribute.type.value) for name, attribute in schema.attributes.items()
    }
    return {**types, "to": onnx_number} if schema.name == "Cast" else types


def _method(schema: Any) -> Any:
    """Returns the method of an op."""
    name = _RENAMED.get(schema.name, schema.name.lower())

    def method(*args: Any, **kwargs: Any) -> Any:
        """Placeholder: `node` replaces it with a method of the signature."""

    method.__name__ = method.__qualname__ = name
    signature = _signature(schema)
    method.__doc__ = _text(schema, signature)
    method.__signature__ = signature  # type: ignore[attr-defined]
    return node(schema.name, outputs=schema.min_output, types=_types(schema))(method)


def _text(schema: Any, signature: inspect.Signature) -> str:
    """Returns the docstring of an op's method, made from its schema."""
    optional = defs.OpSchema.FormalParameterOption.Optional
    inputs = [f"{i.name} (optional)" if i.option == optional else i.name for i in schema.inputs]
    attributes = {
        name: " ".join(attribute.description.split()).split(". ")[0].rstrip(".") or "as in ONNX"
        for name, attribute in schema.attributes.items()
    }
    lines = {name: f"{text}." for name, text in attributes.items()}
    summary = f"Adds the op {schema.name} of ONNX."
    return with_arguments(summary, signature, ", ".join(inputs), lines)


def _opset(version: int) -> type[OnnxOpset]:
    """Returns the class of an opset."""
    members = {"version": version, "__doc__": f"The ops of version {version} of ONNX."}
    for schema in _schemas(version):
        if schema.name != "Constant":
            method = _method(schema)
            members[method.__name__] = method
    return type(f"AiOnnxOpset{version}", (OnnxOpset,), members)


OPSETS = {version: _opset(version) for version in VERSIONS}
