"""Compiled applications: Clusters compiled into programs, and the files that hold them."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError
from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import constant_op, dtypes, errors, ops, tensor_shape
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import resource_variable_ops

from tensorflow_ipu.compiler import requests, store
from tensorflow_ipu.compiler.analysis import constants
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.runtime import interpreter, native
from tensorflow_ipu.util import archives, op_names
from tensorflow_ipu.util.short_repr import shows

# --- `Application`: compiles a Cluster into a program that can be saved ---

#: Prefix of the names of inputs.
INPUT_PREFIX = "XLA_Args/"


_RECEIVE, _SEND = "IpuApplicationReceive", "IpuApplicationSend"


# Op -> how it depends on this process.
_LEFT_BEHIND = {
    **dict.fromkeys(op_names.PYTHON_CALLS, "calls Python"),
    **dict.fromkeys(op_names.TABLE_OPS, "uses a host embedding"),
}


Specs = tuple[tensor_lib.TensorSpec, ...]


@dataclasses.dataclass(frozen=True)
class Signature:
    """The input and output tensors of an application.

    Attributes:
        inputs: Inputs at the start: arguments of the function, then variables that are not frozen,
            called `XLA_Args/<name>`.
        streamed_inputs: Inputs of a call: the tensors of one element of each infeed.
        streamed_outputs: Outputs of a call: the tensors of one element of each outfeed. Without
            outfeeds, the results of the program.
    """

    inputs: Specs
    streamed_inputs: Specs
    streamed_outputs: Specs

    __repr__ = shows(
        lambda self: {
            "inputs": len(self.inputs),
            "streamed_inputs": len(self.streamed_inputs),
            "streamed_outputs": len(self.streamed_outputs),
        }
    )


@dataclasses.dataclass(frozen=True)
class ApplicationArgument:
    """An argument of the program.

    Attributes:
        spec: Its name, type and shape.
        is_variable: Whether it is a variable, which keeps the values that the program writes.
        value: The value it is bound to; None for an input.
    """

    spec: tensor_lib.TensorSpec
    is_variable: bool
    value: npt.NDArray[Any] | None


@dataclasses.dataclass(frozen=True)
class Application:
    """A compiled program without the process that made it.

    Attributes:
        fingerprint: Equal for equal programs that are bound to equal values.
        entry: Name of the function to run.
        replicas: Number of replicas.
        arguments: Arguments of the entry.
        infeeds: The tensors of an element of each infeed.
        outfeeds: The tensors of an element of each outfeed.
        results: Results of the entry.
        library: The functions, with the operations of applications instead of feeds.
        executable: Its Executable; None for an application read from a file.
    """

    fingerprint: str
    entry: str
    replicas: int
    arguments: tuple[ApplicationArgument, ...]
    infeeds: tuple[Specs, ...]
    outfeeds: tuple[Specs, ...]
    results: Specs
    library: function_pb2.FunctionDefLibrary = dataclasses.field(repr=False)
    executable: Executable | None = dataclasses.field(default=None, repr=False)

    @property
    def signature(self) -> Signature:
        """The tensors that go in and come out."""
        return Signature(
            tuple(argument.spec for argument in self.arguments if argument.value is None),
            tuple(spec for infeed in self.infeeds for spec in infeed),
            tuple(spec for outfeed in self.outfeeds for spec in outfeed) or self.results,
        )

    def bound(self, inputs: list[Any]) -> Iterator[tuple[ApplicationArgument, Any]]:
        """Yields each argument with its value.

        Args:
            inputs: the values of those that are inputs, in order.
        """
        given = iter(inputs)
        for argument in self.arguments:
            yield argument, next(given) if argument.value is None else argument.value


def build(
    cluster: Cluster,
    ordinal: int,
    values: Mapping[int, npt.NDArray[Any]],
    names: Mapping[int, str] | None = None,
) -> Application:
    """Compiles a Cluster, without running it.

    Args:
        cluster: the Cluster. The shapes of its inputs are fully defined.
        ordinal: compile for the device `/device:IPU:<ordinal>`.
        values: values of bound arguments, by position. Other arguments are inputs.
        names: names of arguments, by position; the default is their variable's name.

    Raises:
        tf.errors.FailedPreconditionError: If nothing of the program is for the device.
        tf.errors.InvalidArgumentError: If it depends on objects of this process.
        tf.errors.OpError: As at the first run of a program.
    """
    executable, library = requests.compile_ahead(cluster, ordinal)
    _check_on_device(executable)
    _check_one_process(executable)
    _check_self_contained(library)
    infeeds = _replace_feeds(library, op_names.INFEED, _to_receive)
    outfeeds = _replace_feeds(library, op_names.OUTFEED, _to_send)
    return Application(
        _fingerprint(executable, values),
        cluster.entry,
        executable.replicas,
        tuple(_arguments(executable, values, names or {})),
        tuple(_streamed("infeed", infeeds)),
        tuple(_streamed("outfeed", outfeeds)),
        tuple(
            tensor_lib.TensorSpec(result.shape, result.dtype, f"result_{index}")
            for index, result in enumerate(executable.results)
        ),
        library,
        executable,
    )


def _fingerprint(executable: Executable, values: Mapping[int, npt.NDArray[Any]]) -> str:
    digest = hashlib.sha256(executable.fingerprint.encode())
    for index in sorted(values):
        digest.update(f"{index} {values[index].dtype} {values[index].shape}".encode())
        digest.update(values[index].tobytes())
    return digest.hexdigest()


def _check_on_device(executable: Executable) -> None:
    """Raises for programs that the host evaluates: they have no Executable to save."""
    if executable.on_device:
        return
    constant = constants.is_constant(executable.library, executable.entry)
    kind = "constant" if constant else "scalar elementwise"
    raise errors.FailedPreconditionError(
        None,
        None,
        f"Cannot serialize a {kind} graph: the host evaluates it, and there is no program for the "
        "device. Export a function that computes with tensors that have dimensions.",
    )


def _check_one_process(executable: Executable) -> None:
    """Raises for programs of several instances: the loading process has not joined others."""
    instances = executable.system.process_count
    if instances == 1:
        return
    raise errors.FailedPreconditionError(
        None,
        None,
        f"An application is a program of one process. Received: one of {instances} processes "
        "(experimental.multi_replica_distribution.process_count). Save it in a process that "
        "is started without a launcher.",
    )


def _check_self_contained(library: function_pb2.FunctionDefLibrary) -> None:
    for function in library.function:
        for node in function.node_def:
            if node.op in _LEFT_BEHIND:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"An application cannot be saved that {_LEFT_BEHIND[node.op]} "
                    f"({node.name}, {node.op}): the process that loads it does not have that. Do "
                    "it before or after the calls of the application.",
                )


def _arguments(
    executable: Executable, values: Mapping[int, npt.NDArray[Any]], names: Mapping[int, str]
) -> Iterator[ApplicationArgument]:
    used: set[str] = set()
    for index, found in enumerate(executable.arguments):
        wanted = unique = INPUT_PREFIX + names.get(index, found.name)
        number = 0
        while unique in used:
            number += 1
            unique = f"{wanted}_{number}"
        used.add(unique)
        spec = tensor_lib.TensorSpec(found.shape, found.dtype, unique)
        yield ApplicationArgument(spec, found.is_variable, values.get(index))


def _replace_feeds(
    library: function_pb2.FunctionDefLibrary,
    op: str,
    replace: Callable[[node_def_pb2.NodeDef, int], None],
) -> list[list[tuple[dtypes.DType, tensor_shape.TensorShape]]]:
    """Replaces the nodes of feeds by operations of applications.

    Args:
        library: the functions, changed in place.
        op: the nodes to replace.
        replace: changes a node, given the number of its feed.

    Returns:
        Types and shapes of each feed, in the order in which the queues were made.
    """
    nodes = [node for function in library.function for node in function.node_def if node.op == op]
    feeds = sorted({node.attr["feed_id"].s for node in nodes}, key=_number)
    found: list[list[tuple[dtypes.DType, tensor_shape.TensorShape]]] = [[] for _ in feeds]
    for node in nodes:
        feed = feeds.index(node.attr["feed_id"].s)
        is_infeed = op == op_names.INFEED
        types = node.attr["output_types" if is_infeed else "T"].list.type
        shapes = node.attr["output_shapes" if is_infeed else "shapes"].list.shape
        found[feed] = [
            (dtypes.as_dtype(kind), tensor_shape.TensorShape(shape))
            for kind, shape in zip(types, shapes)
        ]
        replace(node, feed)
    return found


def _number(feed_id: bytes) -> int:
    """Returns the number in the name of a feed; queues are numbered as they are made."""
    return int(feed_id.rpartition(b"_")[2])


def _to_receive(node: node_def_pb2.NodeDef, feed: int) -> None:
    node.op = _RECEIVE
    del node.attr["feed_id"]
    node.attr["infeed"].i = feed


def _to_send(node: node_def_pb2.NodeDef, feed: int) -> None:
    node.op = _SEND
    for name in ("feed_id", "mode", "shapes"):
        node.attr.pop(name, None)
    node.attr["outfeed"].i = feed


def _streamed(
    kind: str, feeds: list[list[tuple[dtypes.DType, tensor_shape.TensorShape]]]
) -> Iterator[Specs]:
    for number, feed in enumerate(feeds):
        yield tuple(
            tensor_lib.TensorSpec(shape, dtype, f"{kind}_{number}.{index}")
            for index, (dtype, shape) in enumerate(feed)
        )


# --- Engines that run applications in the native library until the process ends ---

# One engine is started at a time, so that each is started once.
_LOCK = threading.Lock()


def start(application: Application, name: str, inputs: list[Any], timeout: int) -> None:
    """Starts an engine, unless one of that name is running, which goes on unchanged.

    Args:
        application: the application to run.
        name: name of the engine.
        inputs: a NumPy array for each input.
        timeout: microseconds to wait for a batch before the program is flushed.

    Raises:
        tf.errors.AlreadyExistsError: If the engine of that name runs another program.
    """
    infeeds, outfeeds = application.infeeds, application.outfeeds
    outputs = [spec for outfeed in outfeeds for spec in outfeed]
    streamed = application.signature.streamed_inputs
    with interpreter.TRACING, _LOCK, context.eager_mode(), ops.device("/device:CPU:0"):
        # The engine has references of its own to the variables.
        values = [_value(argument, value) for argument, value in application.bound(inputs)]
        native.ops().ipu_application_start(
            name,
            application.fingerprint,
            application.library.SerializeToString(),
            application.entry,
            application.replicas,
            timeout,
            [getattr(value, "handle", value) for value in values],
            num_results=len(application.results),
            infeed_sizes=list(map(len, infeeds)),
            input_types=[spec.dtype for spec in streamed],
            input_shapes=[spec.shape for spec in streamed],
            outfeed_sizes=list(map(len, outfeeds)),
            output_types=[spec.dtype for spec in outputs],
            output_shapes=[spec.shape for spec in outputs],
        )


def _value(argument: ApplicationArgument, value: Any) -> Any:
    """Returns a variable or a tensor on the host."""
    tensor = constant_op.constant(value, argument.spec.dtype)
    if not argument.is_variable:
        return tensor
    return resource_variable_ops.ResourceVariable(tensor, trainable=False)


# --- Files of compiled applications ---

# A file is an Executable's (`compiler/store.py`) with more members: `application.json`, the input
# and output tensors, `program.pb`, the functions that the host runs, as a serialised
# `FunctionDefLibrary`, and a NumPy `.npy` file for each value that is part of the application.

_FORMAT = 1


_DESCRIPTION, _PROGRAM = "application.json", "program.pb"


_WHAT = "an application that tensorflow_ipu compiled"


def save_application(application: Application, path: str | os.PathLike[str]) -> None:
    """Writes an application that was compiled in this process.

    Args:
        application: the application.
        path: the file; an existing one is replaced.

    Raises:
        OSError: If it cannot be written.
        ValueError: If the application was read from a file.
    """
    if application.executable is None:
        raise ValueError(f"The application was read from a file: copy that to {os.fspath(path)}.")
    members = {
        _DESCRIPTION: json.dumps(_describe(application), indent=1).encode(),
        _PROGRAM: application.library.SerializeToString(deterministic=True),
    }
    for index, argument in enumerate(application.arguments):
        if argument.value is not None:
            stream = io.BytesIO()
            np.save(stream, argument.value, allow_pickle=False)
            members[_member(index)] = stream.getvalue()
    store.save(application.executable, Path(path), members)


def load_application(path: str | os.PathLike[str]) -> Application:
    """Reads an application.

    Args:
        path: a file that `save` wrote.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If the file is none of ours, is damaged, or is of another format.
    """
    with archives.reading(path, _WHAT) as archive:
        description = archives.read_json(archive, _DESCRIPTION)
        if description.get("format") != _FORMAT:
            raise ValueError(
                f"its format is {description.get('format')!r}, and this release reads {_FORMAT}. "
                "Compile it again"
            )
        try:
            library = function_pb2.FunctionDefLibrary.FromString(archive.read(_PROGRAM))
        except DecodeError as error:
            raise ValueError(f"{_PROGRAM} has no functions ({error})") from error
        return _read(archive, description, library)


def _member(index: int) -> str:
    return f"values/{index}.npy"


def _describe(application: Application) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "fingerprint": application.fingerprint,
        "entry": application.entry,
        "replicas": application.replicas,
        "arguments": [
            {
                **_describe_spec(argument.spec),
                "is_variable": argument.is_variable,
                "has_value": argument.value is not None,
            }
            for argument in application.arguments
        ],
        "infeeds": [list(map(_describe_spec, infeed)) for infeed in application.infeeds],
        "outfeeds": [list(map(_describe_spec, outfeed)) for outfeed in application.outfeeds],
        "results": list(map(_describe_spec, application.results)),
    }


def _describe_spec(spec: tensor_lib.TensorSpec) -> dict[str, Any]:
    shape = None if spec.shape.rank is None else spec.shape.as_list()
    return {"name": spec.name, "dtype": spec.dtype.name, "shape": shape}


def _read(
    archive: zipfile.ZipFile,
    description: dict[str, Any],
    library: function_pb2.FunctionDefLibrary,
) -> Application:
    entry = str(description["entry"])
    if entry not in {function.signature.name for function in library.function}:
        raise ValueError(f"{_PROGRAM} has no function {entry!r}")
    replicas = description["replicas"]
    if type(replicas) is not int or replicas < 1:
        raise ValueError(f"{replicas!r} is no number of replicas")
    return Application(
        str(description["fingerprint"]),
        entry,
        replicas,
        tuple(
            _read_argument(archive, index, item)
            for index, item in enumerate(description["arguments"])
        ),
        tuple(map(_read_specs, description["infeeds"])),
        tuple(map(_read_specs, description["outfeeds"])),
        _read_specs(description["results"]),
        library,
    )


def _read_argument(
    archive: zipfile.ZipFile, index: int, item: dict[str, Any]
) -> ApplicationArgument:
    (spec,) = _read_specs([item])
    value: npt.NDArray[Any] | None = None
    if item["has_value"]:
        value = np.load(io.BytesIO(archive.read(_member(index))), allow_pickle=False)
        if value.dtype != spec.dtype.as_numpy_dtype or not spec.shape.is_compatible_with(
            value.shape
        ):
            raise ValueError(f"the value of {spec.name} is {value.dtype}{list(value.shape)}")
    return ApplicationArgument(spec, bool(item["is_variable"]), value)


def _read_specs(items: list[dict[str, Any]]) -> Specs:
    return tuple(
        tensor_lib.TensorSpec(
            tensor_shape.TensorShape(item["shape"]), dtypes.as_dtype(item["dtype"]), item["name"]
        )
        for item in items
    )
