"""Steps of an exported model: their arguments, and the traced functions."""

from __future__ import annotations

import dataclasses
import inspect
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import logging
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
from tensorflow.python.framework import convert_to_constants, dtypes, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import array_ops, resource_variable_ops
from tensorflow.python.util import nest

from tensorflow_ipu.compiler import trace
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.current_scope import without_reductions
from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.compiler.ir.dataflow import resource_uses
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.feeds import common
from tensorflow_ipu.util import op_names

# --- Arguments: names, types and shapes ---


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The arguments of a step: names, types and shapes.

    Attributes:
        structure: Nest of `tf.TensorSpec`: a tuple of positional, or a dict of keyword arguments.
        specs: The same in one list, each with a name that no other has.
    """

    structure: Any
    specs: tuple[tensor_lib.TensorSpec, ...]

    @classmethod
    def of(cls, structure: Any, parameters: Sequence[str] = ()) -> Arguments:
        """Creates arguments from a signature, a dataset's element or another step's results.

        Args:
            structure: specs or tensors: a list or tuple of positional arguments, a dict of keyword
                arguments, or one value.
            parameters: names of the step's positional parameters.
        """
        if not isinstance(structure, (list, tuple, Mapping)) or hasattr(structure, "_fields"):
            structure = (structure,)
        if isinstance(structure, Mapping):
            structure = dict(structure)
            named = list(structure.items())
        else:
            structure = tuple(structure)
            named = [
                (parameters[index] if index < len(parameters) else f"input_{index}", value)
                for index, value in enumerate(structure)
            ]
        # In the order of the nest: for dicts, of their keys.
        named = sorted(named) if isinstance(structure, dict) else named
        specs = _named_specs([leaf for name, value in named for leaf in _leaves(name, value)])
        return cls(nest.pack_sequence_as(structure, specs), tuple(specs))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tensors."""
        return tuple(str(spec.name) for spec in self.specs)

    def pack(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns flat tensors as positional and keyword arguments."""
        packed = nest.pack_sequence_as(self.structure, list(tensors))
        return ((), packed) if isinstance(packed, dict) else (packed, {})

    def flatten(self, results: Any, role: str) -> list[Any]:
        """Returns the results of the step before, in the order of `specs`.

        Args:
            results: a nest of tensors: a list or tuple goes to positional arguments, a dict to
                arguments by name.
            role: both steps in words, for the message.

        Raises:
            ValueError: If the tensors do not match the arguments.
        """
        flat = nest.flatten(results)
        if isinstance(results, Mapping) and set(results) == set(self.names):
            flat = [results[name] for name in self.names]
        if len(flat) != len(self.specs) or not all(map(_fits, flat, self.specs)):
            raise ValueError(
                f"{role} must fit together. The second takes {_describe(self.specs)}. Received "
                f"from the first: {_describe(flat)}"
            )
        return flat


def resolve(
    role: str,
    step: Callable[..., Any],
    signature: Any,
    dataset: Any = None,
    skip: int = 0,
) -> Arguments | None:
    """Returns the arguments of a step, from the only source that describes them.

    Args:
        role: name of the step, such as "predict_step".
        step: the function.
        signature: its signature from the user, or None.
        dataset: a dataset with elements like its inputs, or None.
        skip: number of the step's first arguments that are given otherwise.

    Returns:
        The arguments, or None if there is no source.

    Raises:
        TypeError: If a source is of another type.
        ValueError: If there is more than one, or it is empty.
    """
    sources: dict[str, Any] = {}
    own = _own_signature(step)
    if own is not None:
        sources[f"the input_signature of the tf.function {role}"] = (
            own if isinstance(own, dict) else own[skip:]
        )
    if signature is not None:
        sources[f"{role}_signature"] = _checked(role, signature)
    if dataset is not None:
        if not isinstance(dataset, dataset_ops.DatasetV2):
            raise TypeError(f"input_dataset must be a tf.data.Dataset. Received: {dataset!r}")
        sources["input_dataset"] = dataset.element_spec
    if len(sources) > 1:
        raise ValueError(
            f"The input signature of {role} must come from exactly one source. Received: "
            f"{' and '.join(sources)}. Leave out all but one."
        )
    return next((Arguments.of(v, _parameters(step)[skip:]) for v in sources.values()), None)


def required(role: str, found: Arguments | None) -> Arguments:
    """Returns arguments, after a check that there are any.

    Raises:
        ValueError: If there are none.
    """
    if found is not None and found.specs:
        return found
    problem = "is empty" if found is not None else "is not known"
    raise ValueError(
        f"The input signature of {role} {problem}. Pass exactly one of: a tf.function with an "
        f"input_signature, {role}_signature, input_dataset."
    )


def _own_signature(step: Any) -> Any:
    """Returns the signature that a `tf.function` was made with; None if it has none."""
    if isinstance(step, Function):
        return step.input_signature
    if isinstance(step, ConcreteFunction):
        positional, named = step.structured_input_signature
        return positional if positional or not named else named
    return None


def _checked(role: str, signature: Any) -> Any:
    """Returns a signature that a user passed."""
    if not isinstance(signature, (list, tuple)) or not all(
        isinstance(spec, tensor_lib.TensorSpec) for spec in signature
    ):
        raise TypeError(
            f"{role}_signature must be a list or tuple of tf.TensorSpec, one for each argument of "
            f"{role}. Received: {signature!r}"
        )
    if not signature:
        raise ValueError(
            f"{role}_signature must not be empty: a model that takes nothing cannot be served."
        )
    return signature


def _parameters(step: Any) -> list[str]:
    """Returns the names of the positional parameters of a step."""
    try:
        parameters = inspect.signature(getattr(step, "python_function", step)).parameters
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, parameter in parameters.items() if parameter.kind in kinds]


def _leaves(name: str, value: Any) -> list[tuple[str, Any]]:
    """Returns the tensors of one argument, with names."""
    leaves = nest.flatten(value)
    single = len(leaves) == 1
    named = [name if single else f"{name}_{index}" for index in range(len(leaves))]
    if isinstance(value, Mapping):
        named = [str(key) for key in sorted(value)] if len(value) == len(leaves) else named
    return list(zip(named, leaves))


def _named_specs(leaves: Sequence[tuple[str, Any]]) -> list[tensor_lib.TensorSpec]:
    """Returns specs with names that are unique and valid for Python parameters."""
    used: set[str] = set()
    specs = []
    for name, leaf in leaves:
        given = getattr(leaf, "name", None) if isinstance(leaf, tensor_lib.TensorSpec) else None
        wanted = re.sub(r"\W", "_", given or name)
        if not wanted.isidentifier() or keyword.iskeyword(wanted):
            wanted = f"input_{wanted}"
        unique, number = wanted, 0
        while unique in used:
            number += 1
            unique = f"{wanted}_{number}"
        used.add(unique)
        specs.append(tensor_lib.TensorSpec(leaf.shape, leaf.dtype, unique))
    return specs


def _fits(tensor: Any, spec: tensor_lib.TensorSpec) -> bool:
    return bool(tensor.dtype == spec.dtype and tensor.shape.is_compatible_with(spec.shape))


def _describe(tensors: Sequence[Any]) -> str:
    described = [f"{tensor.dtype.name}{tensor.shape}" for tensor in tensors]
    return ", ".join(described) or "nothing"


# --- Steps: each traced once, with captures or with variables as constants ---

# Prefixes of ops that exchange data with objects that do not exist in a server.
_NOT_SERVED = ("Infeed", "Outfeed", "HostEmbedding", "IpuLaunch")


@dataclasses.dataclass(frozen=True)
class TracedStep:
    """A traced function of tensors.

    Attributes:
        name: Its name, such as "predict_step".
        arguments: Its arguments.
        concrete: The trace: flat tensors in, a nest of tensors out.
    """

    name: str
    arguments: Arguments
    concrete: ConcreteFunction

    @property
    def results(self) -> Any:
        """The results of the step: a nest of symbolic tensors, with types and shapes."""
        return self.concrete.structured_outputs

    @property
    def atomic(self) -> Any:
        """TensorFlow's runtime function of the step: flat tensors and captures in, flat out."""
        return self.concrete._inference_function

    def call(self, tensors: Sequence[Any], captures: Sequence[Any]) -> Any:
        """Adds a call to the graph being built.

        Args:
            tensors: the step's tensors.
            captures: tensors to pass instead of its captures.

        Returns:
            The results of the step.
        """
        fitted = [
            tensor
            if spec.shape.rank is None
            else array_ops.ensure_shape(tensor, spec.shape)
            if tensor.shape != spec.shape
            else tensor
            for tensor, spec in zip(tensors, self.arguments.specs)
        ]
        outputs = self.atomic.call_flat(*fitted, *captures)
        return nest.pack_sequence_as(self.results, list(outputs))


def traced(name: str, function: Callable[..., Any], arguments: Arguments) -> TracedStep:
    """Traces a step.

    Args:
        name: its name.
        function: the step: any Python function, Keras layer or `tf.function`.
        arguments: its arguments.

    Raises:
        ValueError: If it returns no tensors, or uses feeds.
    """

    def call(*tensors: Any) -> Any:
        positional, named = arguments.pack(tensors)
        results = tensorflow_hooks.converted(function)(*positional, **named)
        flat = nest.flatten(results)
        if not flat or any(value is None for value in flat):
            raise ValueError(f"{name} must return tensors only. Received: {results!r}")
        return nest.map_structure(ops.convert_to_tensor, results)

    whole = polymorphic_function.function(call, input_signature=arguments.specs)
    # As in a program: a function with jit_compile=True inside is no launch of its own, and not for
    # XLA either, which a server may not have.
    with trace.cluster_scope(), without_reductions(), ops.device(None):
        concrete = whole.get_concrete_function()
    step = TracedStep(name, arguments, concrete)
    _check_ops(step)
    return step


def check_device_tensors(role: str, tensors: Sequence[Any]) -> None:
    """Raises for tensors that cannot pass between host and device.

    Args:
        role: the tensors in words, for the message.
        tensors: specs or symbolic tensors.

    Raises:
        TypeError: If the device lacks a type.
        ValueError: If a shape is not fully defined.
    """
    for index, tensor in enumerate(tensors):
        if tensor.dtype not in common.SUPPORTED_DTYPES:
            supported = ", ".join(dtype.name for dtype in common.SUPPORTED_DTYPES)
            raise TypeError(
                f"Unsupported data type {tensor.dtype.name} of {role} {index} ({tensor.name}). The "
                f"IPU has {supported}. Cast it on the host: in a preprocessing_step or "
                "postprocessing_step."
            )
        if not tensor.shape.is_fully_defined():
            raise ValueError(
                f"The shape {tensor.shape} of {role} {index} ({tensor.name}) is not fully defined, "
                "but a compiled program needs to know all dimensions. Give all of them in the "
                "signature; with a dataset, use batch(..., drop_remainder=True)."
            )


class StepCaptures:
    """Copies of the variables that steps use, on one device, with the values they have now."""

    def __init__(self, device: str) -> None:
        """Starts without copies.

        Args:
            device: where to make them.
        """
        self._device = device
        self._copies: dict[int, resource_variable_ops.ResourceVariable] = {}
        self._resources: dict[int, Any] = {}
        self._found: dict[str, list[Any]] = {}

    @property
    def owners(self) -> list[Any]:
        """The copies, and other objects like lookup tables, which a SavedModel has to track."""
        return [*self._copies.values(), *self._resources.values()]

    def of(self, step: TracedStep) -> list[Any]:
        """Returns the captures of a step, with variables replaced by their copies.

        Raises:
            ValueError: If it uses something that cannot be saved.
        """
        if step.name in self._found:
            return self._found[step.name]
        variables = {id(variable.handle): variable for variable in step.concrete.graph.variables}
        found = self._found[step.name] = []
        for captured in step.concrete.captured_inputs:
            if id(captured) in variables:
                found.append(self._copy(variables[id(captured)]).handle)
            elif captured.dtype in (dtypes.resource, dtypes.variant):
                self._keep_owner(step, captured)
                found.append(captured)
            else:
                found.append(captured)
        return found

    def on(self, device: str) -> StepCaptures:
        """Returns copies of these copies on another device.

        Args:
            device: where to make them.
        """
        moved = StepCaptures(device)
        copies = {id(copy.handle): copy for copy in self._copies.values()}
        for name, found in self._found.items():
            moved._found[name] = [
                moved._copy(copies[id(one)]).handle if id(one) in copies else one for one in found
            ]
        return moved

    def _copy(self, variable: Any) -> resource_variable_ops.ResourceVariable:
        copy = self._copies.get(id(variable.handle))
        if copy is None:
            # Not `tf.Variable`, which a strategy in scope would put on a device of its own.
            with ops.init_scope(), ops.device(self._device):
                copy = resource_variable_ops.ResourceVariable(
                    variable.numpy(), trainable=False, name=variable.name.split(":")[0]
                )
            self._copies[id(variable.handle)] = copy
        return copy

    def _keep_owner(self, step: TracedStep, captured: Any) -> None:
        owner = getattr(captured, "_parent_trackable", lambda: None)()
        if owner is None:
            raise ValueError(
                f"{step.name} uses {captured!r}, which cannot be saved. Exported steps may use "
                "variables and lookup tables; make other values inside the step."
            )
        self._resources[id(captured)] = owner


def ipu_ops(step: TracedStep) -> set[str]:
    """Returns the operations in a step that stock TensorFlow does not have."""
    definition = step.concrete.graph.as_graph_def()
    nodes = [*definition.node]
    for function in definition.library.function:
        nodes.extend(function.node_def)
    return {node.op for node in nodes if op_names.is_own(node.op)}


def _check_ops(step: TracedStep) -> None:
    refused = sorted(op for op in ipu_ops(step) if any(part in op for part in _NOT_SERVED))
    if refused:
        raise ValueError(
            f"{step.name} cannot be exported: it uses {', '.join(refused)}, and feeds, host "
            "embeddings and launches are not there when a model is served. Take its inputs as "
            "arguments and return its outputs."
        )


# --- Variables as constants ---

# A SavedModel's graph is one protocol buffer, which has at most two of these.
_LARGEST_BYTES = 1 << 30


@dataclasses.dataclass(frozen=True)
class FrozenStep(TracedStep):
    """A step without variables.

    Attributes:
        structure: The traced structure of its results.
    """

    structure: Any = None

    @property
    def results(self) -> Any:
        """The results of the step: a nest of symbolic tensors, with types and shapes."""
        return nest.pack_sequence_as(self.structure, list(self.concrete.outputs))


def frozen(step: TracedStep) -> TracedStep:
    """Returns a step with the values that its variables have now, as constants.

    Steps that write variables, or use other objects from outside, stay as they are. So do those
    whose variables are too large for a graph.

    Args:
        step: the step.
    """
    variables = step.concrete.graph.variables
    shapes_known = all(tensor.shape.is_fully_defined() for tensor in step.concrete.outputs)
    if not variables and shapes_known:
        return step
    if any(tensor.dtype == dtypes.variant for tensor in step.concrete.captured_inputs):
        return step
    if not _only_reads(step):
        return step
    size = sum(variable.shape.num_elements() * variable.dtype.size for variable in variables)
    if size > _LARGEST_BYTES:
        logging.info(
            "The variables of the exported %s have %d bytes, too many for constants of a graph: "
            "they stay variables. Load the model in the scope of an IPUStrategy to run it there.",
            step.name,
            size,
        )
        return step
    # Functions are inlined, so that all shapes are known; loops and branches stay.
    concrete = convert_to_constants.convert_variables_to_constants_v2(
        step.concrete, lower_control_flow=False
    )
    return FrozenStep(step.name, step.arguments, concrete, step.results)


def _only_reads(step: TracedStep) -> bool:
    """Returns whether a step uses resources only to read variables of its own."""
    handles = {id(variable.handle) for variable in step.concrete.graph.variables}
    captured = [one for one in step.concrete.captured_inputs if one.dtype == dtypes.resource]
    if any(id(handle) not in handles for handle in captured):
        return False
    cluster = Cluster.from_graph(step.concrete.graph, "frozen", owner=step.concrete)
    uses = resource_uses(Program.from_library(cluster.library(), cluster.entry))
    return all(node.op in op_names.READS for _, node in uses)
