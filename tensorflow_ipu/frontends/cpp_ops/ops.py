"""`CppOp`: an operation of a user's library, with its shapes, its gradient ops and its program."""

from __future__ import annotations

import dataclasses
import json
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.compiler import trace
from tensorflow_ipu.frontends.common import errors
from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.cpp_ops import library
from tensorflow_ipu.runtime import native

# PopART's names of types, and TensorFlow's types.
TYPES = {
    "UINT8": tf.uint8,
    "INT8": tf.int8,
    "FLOAT8_143": tf.uint8,
    "FLOAT8_152": tf.uint8,
    "UINT16": tf.uint16,
    "INT16": tf.int16,
    "INT32": tf.int32,
    "INT64": tf.int64,
    "UINT32": tf.uint32,
    "UINT64": tf.uint64,
    "BOOL": tf.bool,
    "FLOAT": tf.float32,
    "FLOAT16": tf.float16,
}
_NAMES = {dtype: name for name, dtype in reversed(TYPES.items())}
# Types that the device does not have, and those that hold their values.
_NARROW = {tf.int64: tf.int32, tf.uint64: tf.uint32}
GRADIENT = "Gradient___"
SEED = "randomSeed___"
# The library's name among those whose programs TensorFlow runs.
_KIND = "popart"
# TensorFlow's message of a program that has a fault or has failed: the class, and the text.
_FAILED = re.compile(rf"\({_KIND}\) (?:cannot be built|failed): (\w+): (.*)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class CppTensor:
    """A tensor that an op takes or makes.

    Attributes:
        index: Its index at the op.
        id: Its id in the graph.
        type: PopART's name of its type.
        shape: Its shape.
    """

    index: int
    id: str
    type: str
    shape: tuple[int, ...]


def type_name(dtype: tf.DType) -> str:
    """Returns PopART's name of a type.

    Args:
        dtype: TensorFlow's type.

    Raises:
        popart_exception: If there is none.
    """
    if dtype not in _NAMES:
        raise popart_exception(
            f"Operations of libraries do not take {dtype.name}. Expected one of: "
            f"{', '.join(TYPES)}."
        )
    return _NAMES[dtype]


#: Options of a session that ops may ask for.
OPTIONS = (
    *("accumulationFactor", "enableGradientAccumulation", "enablePipelining", "enableStableNorm"),
    *("enableStochasticRounding", "opxAliasChecking", "opxModifyChecking"),
)


class CppIr:
    """A program as the library sees it: graphs with the tensors that its ops take."""

    def __init__(
        self,
        replicas: int,
        training: bool,
        find: Callable[[str, str], None] | None = None,
        created: Callable[[str, int], None] | None = None,
        options: Callable[[], Mapping[str, int]] | None = None,
    ) -> None:
        """Makes a program with an empty main graph.

        Args:
            replicas: the number of replicas.
            training: whether it trains.
            find: called with a graph and a tensor that is not in it; may add it.
            created: called with a graph and the address of an op that was made in it.
            options: returns the options that `set_options` takes, when an op is lowered.
        """
        # The library keeps these addresses.
        self._find = library.FIND_TENSOR(_guarded(find)) if find else library.FIND_TENSOR()
        self._created = library.CREATED(_guarded(created)) if created else library.CREATED()
        self._options = options
        self.handle = library.call("ir", replicas, int(training), self._find, self._created)
        self._finalizer = weakref.finalize(self, library.load().popart_free_ir, self.handle)
        self._finalizer.atexit = False

    def set_replicas(self, replicas: int) -> None:
        """Sets the number of replicas.

        Args:
            replicas: the number.
        """
        library.call("set_replicas", self.handle, replicas)

    def set_options(self, options: Mapping[str, int]) -> None:
        """Sets options of the session that ops may ask for.

        Args:
            options: values by name; those that ops cannot ask for are ignored.
        """
        for name, value in options.items():
            library.call("set_option", self.handle, name, value)

    def update_options(self) -> None:
        """Sets the options that the session has now."""
        if self._options is not None:
            self.set_options(self._options())

    def graph(self, graph_id: str = "") -> int:
        """Returns the handle of a graph, which is made if there is none.

        Args:
            graph_id: the graph; "" for the main graph.
        """
        handle: int = library.call("graph", self.handle, graph_id)
        return handle

    def add_tensor(
        self,
        tensor_id: str,
        type_: str,
        shape: Sequence[int],
        data: np.ndarray | None = None,
        graph_id: str = "",
    ) -> None:
        """Adds a tensor that no op of the library makes.

        Args:
            tensor_id: its id.
            type_: PopART's name of its type.
            shape: its shape.
            data: its value, if it is a constant.
            graph_id: the graph.
        """
        held = None if data is None else np.ascontiguousarray(data)
        library.call(
            "add_tensor",
            self.graph(graph_id),
            tensor_id,
            type_,
            len(shape),
            library.int64s(shape),
            None if held is None else held.ctypes.data,
        )

    def create_op(
        self,
        identifier: tuple[str, str, int],
        name: str,
        attributes: Mapping[str, Any],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> CppOp:
        """Makes an op of the main graph, connected and with the shapes of its outputs.

        Args:
            identifier: domain, type and version.
            name: its name.
            attributes: its attributes.
            inputs: ids of its inputs; "" for those that are missing.
            outputs: ids of its outputs.

        Raises:
            popart_exception: If there is no such op, or it refuses its inputs.
        """
        return CppOp(self, self._create("create_op", identifier, name, attributes, inputs, outputs))

    def create_built_in(
        self,
        identifier: tuple[str, str, int],
        name: str,
        attributes: Mapping[str, Any],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> int:
        """Makes an op of the main graph that has a class and tensors only; returns its number.

        Args:
            identifier: domain, type and version.
            name: its name.
            attributes: its attributes: those that say where it runs are read.
            inputs: as of `create_op`.
            outputs: ids of its outputs, which are in the graph.
        """
        handle = self._create("create_built_in", identifier, name, attributes, inputs, outputs)
        number: int = json.loads(library.call("describe", handle))["id"]
        return number

    def _create(
        self,
        function: str,
        identifier: tuple[str, str, int],
        name: str,
        attributes: Mapping[str, Any],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> int:
        with Attributes(attributes) as made:
            handle: int = library.call(
                function,
                self.graph(),
                *identifier,
                name,
                made,
                len(inputs),
                library.texts(inputs),
                len(outputs),
                library.texts(outputs),
            )
        return handle


class CppOp:
    """An op of a graph of the library.

    Attributes:
        ir: Its program.
        handle: Its address.
        id: Its number in the program.
        text: Its attributes as text.
        type: Its type.
        identifier: Domain, type and version as a text.
        debug_name: Its name in messages.
        inputs: What it takes.
        outputs: What it makes.
        modified: Indices of the inputs that it modifies.
        needs_seed: Whether it draws random numbers, and has no seed yet.
        has_effect: Whether it does more than compute.
    """

    def __init__(self, ir: CppIr, handle: int) -> None:
        """Reads the op.

        Args:
            ir: its program.
            handle: its address.
        """
        self.ir, self.handle = ir, handle
        said = json.loads(library.call("describe", handle))
        self.id: int = said["id"]
        self.type: str = said["type"]
        self.identifier = f"{said['domain']}.{said['type']}:{said['version']}"
        self.debug_name: str = said["debug_name"]
        self.inputs = _tensors(said["inputs"])
        self.outputs = _tensors(said["outputs"])
        self.modified: list[int] = said["modified"]
        self.needs_seed: bool = said["seed"]
        self.has_effect: bool = said["side_effect"]
        self.text: str = said["attributes"]
        self._key: str | None = None
        self._is_checked = False
        self._backwards = 0
        self._check_outputs()

    def __repr__(self) -> str:
        return f"CppOp[{self.debug_name}]"

    def _check_outputs(self) -> None:
        for tensor in self.outputs:
            if tensor.type is None or any(dim < 0 for dim in tensor.shape):
                raise popart_exception(
                    f"setup() of {self.debug_name} did not set the output {tensor.index} to a type "
                    f"and a shape. Received: {tensor.type} {list(tensor.shape)}"
                )

    def connect_seed(self, seed: Any, tensors: Sequence[Any]) -> list[Any]:
        """Connects the seed of an op that draws random numbers.

        Args:
            seed: 32-bit integers of the shape [2].
            tensors: its inputs, in the order of their indices.

        Returns:
            Its inputs with the seed, in that order.
        """
        before = [tensor.index for tensor in self.inputs]
        name = f"{SEED}{self.id}"
        self.ir.add_tensor(name, "UINT32", [2])
        library.call("connect_seed", self.handle, name)
        self.inputs = _tensors(json.loads(library.call("describe", self.handle))["inputs"])
        self.needs_seed = False
        values = dict(zip(before, tensors))
        cast = tf.bitcast(seed, tf.uint32)
        return [values.get(tensor.index, cast) for tensor in self.inputs]

    def run(self, tensors: Sequence[Any], title: str | None = None) -> list[Any]:
        """Adds its program to the function in scope.

        Args:
            tensors: its inputs, in the order of their indices.
            title: stands for all that decides what it computes, if that is known.

        Returns:
            Its outputs, and then the new values of the inputs that it modifies.

        Raises:
            Exception: In a program that is compiled: if the op has no lowering, or that fails.
        """
        self.ir.update_options()
        if self._key is None:
            self._key = library.call(
                "register_lowering",
                self.ir.handle,
                self.handle,
                title or self.text,
                int(title is not None),
            )
        if trace.in_cluster() and not self._is_checked:
            library.call("check_lowering", self._key)
            self._is_checked = True
        changed = [tensor for tensor in self.inputs if tensor.index in self.modified]
        made = [*self.outputs, *changed]
        types = [TYPES[tensor.type] for tensor in made]
        results = native.ops().ipu_precompiled_user_op(
            inputs=[_narrow(tensor) for tensor in tensors],
            output_types=[_NARROW.get(dtype, dtype) for dtype in types],
            output_shapes=[tensor.shape for tensor in made],
            kind=_KIND,
            attributes=self._key,
            op_name=self.type,
            library_path="",
        )
        return [
            result if result.dtype == dtype else tf.cast(result, dtype)
            for result, dtype in zip(results, types)
        ]

    def call(
        self,
        tensors: Sequence[Any],
        title: str | None = None,
        seed: Callable[[], Any] | None = None,
    ) -> list[Any]:
        """Does the same as `run` with the gradient that its gradient ops compute.

        Args:
            tensors: its inputs, in the order of their indices.
            title: as of `run`.
            seed: returns a seed for a gradient op that draws random numbers.

        Returns:
            Its outputs.
        """

        @tf.custom_gradient
        def computed(*taken: Any) -> Any:
            outputs = self.run(taken, title)[: len(self.outputs)]

            def backward(*gradients: Any) -> list[Any]:
                return self._backward(taken, outputs, gradients, title, seed)

            return outputs, backward

        return list(computed(*tensors))

    def _backward(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        gradients: Sequence[Any],
        title: str | None,
        seed: Callable[[], Any] | None,
    ) -> list[Any]:
        """Returns the gradients of the inputs; None where no gradient op has one."""
        self._backwards += 1
        prefix = f"{GRADIENT}{self._backwards}/"
        for tensor in self.outputs:
            self.ir.add_tensor(prefix + tensor.id, tensor.type, tensor.shape)
        values = {
            "In": {t.index: (t.id, value) for t, value in zip(self.inputs, inputs)},
            "Out": {t.index: (t.id, value) for t, value in zip(self.outputs, outputs)},
            "GradOut": {
                t.index: (prefix + t.id, value) for t, value in zip(self.outputs, gradients)
            },
        }
        parts: dict[int, list[Any]] = {}
        for number, plan in enumerate(self.gradients()):
            taken = {i: values[role][n] for i, n, role in plan.inputs if n in values[role]}
            made = {i: f"{prefix}{number}/{i}" for i in plan.outputs}
            op = plan.connect({i: name for i, (name, _) in taken.items()}, made)
            operands = [taken[tensor.index][1] for tensor in op.inputs]
            if op.needs_seed and seed is not None:
                operands = op.connect_seed(seed(), operands)
            results = op.run(
                operands,
                None if title is None else f"{title} gradient {number}",
            )
            for tensor, result in zip(op.outputs, results):
                parts.setdefault(plan.outputs[tensor.index], []).append(result)
        return [
            tf.add_n(parts[tensor.index]) if tensor.index in parts else None
            for tensor in self.inputs
        ]

    def gradients(self) -> list[GradientOp]:
        """Returns its gradient ops, new ones for each call; none if it has no gradient."""
        handle = library.call("gradients", self.handle)
        count = library.call("gradient_count", handle)
        owner = _Gradients(handle)
        return [GradientOp(self, owner, number) for number in range(count)]


class _Gradients:
    """The gradient ops of a call of `getGradOps`, until they are in a graph."""

    def __init__(self, handle: int) -> None:
        """Takes them.

        Args:
            handle: their address.
        """
        self.handle = handle
        self._finalizer = weakref.finalize(self, library.load().popart_free_gradients, handle)
        self._finalizer.atexit = False


class GradientOp:
    """A gradient op that is in no graph yet.

    Attributes:
        inputs: For each input its index, the index at the forward op, and whether that is an input
            ("In"), an output ("Out") or the gradient of an output ("GradOut").
        outputs: Indices of the inputs of the forward op whose gradients it makes, by index.
    """

    def __init__(self, forward: CppOp, owner: _Gradients, number: int) -> None:
        """Reads the connections of the op.

        Args:
            forward: the op whose gradient it is.
            owner: all gradient ops of that.
            number: its number among them.

        Raises:
            popart_exception: If the forward op lacks one of its inputs.
        """
        self._forward, self._owner, self._number = forward, owner, number
        said = json.loads(library.call("describe_gradient", owner.handle, number))
        self.inputs: list[tuple[int, int, str]] = [tuple(row) for row in said["in"]]
        self.outputs: dict[int, int] = {i: n for i, n in said["out"]}
        optional = set(said["optional"])
        taken = {tensor.index for tensor in forward.inputs}
        made = {tensor.index for tensor in forward.outputs}
        for index, other, role in self.inputs:
            if other not in (taken if role == "In" else made) and index not in optional:
                what = "input" if role == "In" else "output"
                raise popart_exception(
                    f"Invalid configuration of gradOp {said['debug_name']}: its input {index} is "
                    f"the {what} {other} of {forward.debug_name}, which has none."
                )

    def connect(
        self, inputs: Mapping[int, str], outputs: Mapping[int, str], graph_id: str = ""
    ) -> CppOp:
        """Moves it to a graph, connects it and sets its shapes up.

        Args:
            inputs: ids of tensors of the graph by index.
            outputs: ids of the tensors to make by index.
            graph_id: the graph.
        """
        ir = self._forward.ir
        handle = library.call(
            "connect_gradient",
            self._owner.handle,
            self._number,
            ir.graph(graph_id),
            len(inputs),
            library.ints(list(inputs)),
            library.texts(list(inputs.values())),
            len(outputs),
            library.ints(list(outputs)),
            library.texts(list(outputs.values())),
        )
        return CppOp(ir, handle)


class Attributes:
    """Attributes of a node as the library has them, in `with`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Takes the attributes.

        Args:
            values: numbers, texts and lists of them by name.
        """
        self._values = values
        self._handle: int | None = None

    def __enter__(self) -> int:
        self._handle = library.call("attributes")
        for name, value in self._values.items():
            self._set(name, value)
        return self._handle

    def __exit__(self, *error: object) -> None:
        library.call("free_attributes", self._handle)

    def _set(self, name: str, value: Any) -> None:
        if isinstance(value, (str, bytes)):
            library.call("set_string", self._handle, name, value)
        elif isinstance(value, float):
            library.call("set_float", self._handle, name, value)
        elif isinstance(value, int):
            library.call("set_int", self._handle, name, int(value))
        elif all(isinstance(item, int) for item in value):
            library.call("set_ints", self._handle, name, len(value), library.int64s(value))
        elif all(isinstance(item, (int, float)) for item in value):
            library.call("set_floats", self._handle, name, len(value), library.floats(value))
        else:
            items = [item.decode() if isinstance(item, bytes) else item for item in value]
            library.call("set_strings", self._handle, name, len(items), library.texts(items))


def failure_of(error: tf.errors.OpError) -> Exception | None:
    """Returns the exception that the program of an op ended with; None for other errors.

    Args:
        error: TensorFlow's error of a compilation or a run.
    """
    found = _FAILED.search(error.message)
    if found is None:
        return None
    kind, text = found.groups()
    if kind == "application_runtime_error":
        return errors.poplar_application_runtime_error(text)
    is_late = kind.endswith("runtime_error")
    return errors.poplar_runtime_error(text) if is_late else errors.poplar_exception(text)


def patterns() -> dict[str, tuple[bool, bool]]:
    """Returns the patterns of loaded libraries.

    Returns:
        For each name whether it is on by default, and whether it has to be on.
    """
    if not library.is_installed():
        return {}
    said = json.loads(library.call("list_patterns"))
    return {name: (is_on, is_mandatory) for name, is_on, is_mandatory in said}


def version_of(domain: str, type_: str, opset: int) -> int:
    """Returns the version of an op that a model of an opset gets; 0 if no library has the op.

    Args:
        domain: the domain.
        type_: the type.
        opset: the version of the domain in the model.
    """
    found: int = library.call("op_version", domain, type_, opset)
    return found


def infer_shapes(
    identifier: tuple[str, str, int],
    attributes: Mapping[str, Any],
    inputs: Sequence[tuple[str, Sequence[int]] | None],
    outputs: int,
) -> list[tuple[str, tuple[int, ...]]] | None:
    """Runs the shape inference function of an op; returns None if no library has one.

    Args:
        identifier: domain, type and version of the opset.
        attributes: its attributes.
        inputs: types and shapes of its inputs; None for unknown ones.
        outputs: the number of its outputs.

    Returns:
        Types and shapes of the outputs.
    """
    known = [given or ("", ()) for given in inputs]
    with Attributes(attributes) as made:
        said = library.call(
            "infer_shapes",
            *identifier,
            made,
            len(known),
            library.texts([type_ for type_, _ in known]),
            library.ints([len(shape) for _, shape in known]),
            library.int64s([dim for _, shape in known for dim in shape]),
            outputs,
        )
    return [(type_, tuple(shape)) for type_, shape in json.loads(said)] if said else None


def _guarded(function: Callable[[str, Any], None]) -> Callable[[bytes, Any], int]:
    """Returns a function that C calls; its exception becomes one of the library."""

    def call(graph: bytes, subject: Any) -> int:
        try:
            function(graph.decode(), subject.decode() if isinstance(subject, bytes) else subject)
        except Exception as error:
            library.call("fail", str(error) or type(error).__name__)
            return 1
        return 0

    return call


def _tensors(rows: Sequence[Any]) -> list[CppTensor]:
    return [CppTensor(index, name, type_, tuple(shape)) for index, name, type_, shape in rows]


def _narrow(tensor: Any) -> Any:
    """Returns a tensor in the type that the device has for it."""
    narrow = _NARROW.get(tensor.dtype)
    return tensor if narrow is None else tf.cast(tensor, narrow)
