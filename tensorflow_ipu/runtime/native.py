"""Ops of the native library, and its C interface as Python functions."""

from __future__ import annotations

import ctypes
import functools
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy.typing as npt
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import errors

from tensorflow_ipu.import_hook.versions import built_for
from tensorflow_ipu.runtime import interpreter, system

# Called with the address of a request.
Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# Called with the name of an op.
NameCallback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
# Name, type of the result, types of the arguments: what native/engine/c_api.cc declares.
_FUNCTIONS = (
    ("tfipu_tensorflow_version", ctypes.c_char_p),
    ("tfipu_free", None, ctypes.c_void_p),
    ("tfipu_set_compiler", None, Callback),
    ("tfipu_set_error_writer", None, Callback),
    ("tfipu_set_value_needed", None, NameCallback),
    ("tfipu_is_abstract", ctypes.c_int, ctypes.c_void_p),
    ("tfipu_error_text", ctypes.c_void_p, ctypes.c_void_p),
    ("tfipu_reply_error_text", None, ctypes.c_void_p, ctypes.c_char_p),
    ("tfipu_request_text", ctypes.c_void_p, ctypes.c_void_p),
    (
        "tfipu_reply",
        None,
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_int64,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
    ),
    ("tfipu_reply_error", None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p),
    ("tfipu_attach", None, ctypes.c_int64, ctypes.c_int),
    ("tfipu_list_devices", None),
    ("tfipu_wait_idle", ctypes.c_int, ctypes.c_int64),
    (
        "tfipu_placed_library",
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.c_int64),
    ),
    ("tfipu_gone_clusters", ctypes.c_void_p),
    ("tfipu_forget_cluster", None, ctypes.c_char_p),
    ("tfipu_forget_executable", None, ctypes.c_char_p),
    ("tfipu_drop_feed", None, ctypes.c_char_p, ctypes.c_int),
    (
        "tfipu_fill_infeed",
        None,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.POINTER(ctypes.c_int),
        ctypes.POINTER(ctypes.c_int),
        ctypes.POINTER(ctypes.c_int64),
        ctypes.c_int64,
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_int64),
    ),
    (
        "tfipu_take_outfeed",
        ctypes.c_int64,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_int64,
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_int64),
    ),
    ("tfipu_counts", None, ctypes.POINTER(ctypes.c_int64)),
    ("tfipu_connect", None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64, ctypes.c_void_p),
    ("tfipu_fork", None, ctypes.c_int),
    ("tfipu_stop_launches", None, ctypes.c_int64),
    ("tfipu_shut_down", None, ctypes.c_int64),
    ("tfipu_reset_seed", None, ctypes.c_int, ctypes.c_int64, ctypes.c_int),
    ("tfipu_enable_events", None, ctypes.c_int),
    ("tfipu_drain_events", ctypes.c_void_p),
    (
        "tfipu_statistics",
        None,
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.c_int64),
        ctypes.POINTER(ctypes.c_double),
    ),
    ("tfipu_uniform_statistics", None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64)),
    ("tfipu_log_launches", None, ctypes.c_char_p, ctypes.c_char_p),
    ("tfipu_kernel_available", ctypes.c_int, ctypes.c_char_p, ctypes.c_int64),
    ("tfipu_set_popc", None, ctypes.c_char_p),
    (
        "tfipu_build_user_op",
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_int64,
        ctypes.POINTER(ctypes.c_int64),
        ctypes.POINTER(ctypes.c_int),
    ),
    ("tfipu_user_op_exchanges", ctypes.c_int, ctypes.c_char_p, ctypes.c_int64),
    (
        "tfipu_check_user_op",
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_int64,
        ctypes.POINTER(ctypes.c_int),
    ),
)


def library_path() -> Path:
    """Returns where the native library is installed.

    Raises:
        ImportError: If it is not there.
    """
    folders = built_for.plugin_folders()
    for folder in folders:
        if (folder / built_for.LIBRARY).exists():
            return folder / built_for.LIBRARY
    raise ImportError(
        f"The native library of tensorflow_ipu, {built_for.LIBRARY}, is not in "
        f"{' or '.join(dict.fromkeys(map(str, folders)))}. Install the package again: "
        f"pip install --force-reinstall --no-deps tensorflow_ipu. {built_for.ADVICE}"
    )


@functools.cache
def load() -> ctypes.CDLL:
    """Loads the native library and declares the types of its C functions, once.

    Returns:
        The library.

    Raises:
        ImportError: If it is not there, or was built for another TensorFlow.
    """
    try:
        library = ctypes.CDLL(str(library_path()))
    except OSError as error:
        raise ImportError(
            f"The native library of tensorflow_ipu does not load into TensorFlow {tf.__version__}: "
            f"{error}. It was built for another one. Install it again: pip install "
            f"--force-reinstall --no-deps tensorflow_ipu. {built_for.ADVICE}"
        ) from error
    for name, result, *arguments in _FUNCTIONS:
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    # For custom operations that compile codelets.
    library.tfipu_set_popc(shlex.quote(str(Path(sys.executable).with_name("popc"))).encode())
    # Once more, for a TensorFlow of which there is no distribution.
    built_for.compare(library.tfipu_tensorflow_version().decode(), tf.__version__)
    return library


def list_devices() -> None:
    """Lets TensorFlow list IPUs as physical devices.

    A program that does not use this package sees none of them: Keras decides by the list whether
    to compile models with XLA.
    """
    load().tfipu_list_devices()
    known = context.context()
    if known._physical_devices is None:  # TensorFlow has not looked yet
        return
    # Listing anew forgets what the program has set for the devices that were there.
    hidden = {*known._physical_devices} - {*known._visible_device_list}
    growth = known._memory_growth_map
    known.reinitialize_physical_devices()
    known._visible_device_list = [d for d in known._physical_devices if d not in hidden]
    known._memory_growth_map.update(growth)


# --- Error messages of our ops without the eager runtime's prefix and suffix ---

# `{{function_node __wrapped__IpuLaunch_..._device_...}} message [Op:IpuLaunch] name: cluster_0`.
_PREFIX = re.compile(r"\A(\{\{function_node __wrapped__Ipu[^{}]*\}\}\s*)+")
_SUFFIX = re.compile(r"\s*\[Op:Ipu\w+\](\s*name:[^\n]*)?\Z")


def cleaned(message: str) -> str:
    """Returns the message of an error without the eager runtime's prefix and suffix.

    Args:
        message: the message of an error that an op of this package gave.
    """
    return _SUFFIX.sub("", _PREFIX.sub("", message))


def clean_errors_of(module: ModuleType) -> None:
    """Makes the ops of this package raise errors with their own messages only.

    Args:
        module: the generated functions of the ops.
    """
    for name, function in list(vars(module).items()):
        if name.startswith("ipu_") and not name.endswith("_eager_fallback") and callable(function):
            setattr(module, name, _cleaning(function))


def _cleaning(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except errors.OpError as error:
            # The same error, of any class, goes on: only its text changes.
            error._message = cleaned(error.message)
            raise

    return call


# --- Ops of the native library, and its C interface as Python functions ---

list_devices()


# The TensorFlow devices `/device:IPU:k`: `kMaxDevices` in native/engine/device_state.h.
_DEVICES = 16
# TensorFlow device -> whether its replicas get equal seeds, where a program has said so.
_identical_replicas: dict[int, bool] = {}
# How long the engine waits before Python has its turn to handle signals.
_POLL_MICROSECONDS = 50 * 1000


class EngineEvent(NamedTuple):
    """One event of the engine.

    Attributes:
        type: Number of the `IpuTraceEvent.Type`.
        ordinal: TensorFlow device it happened on.
        timestamp: Seconds since the epoch.
        variables: For transfers, whether the resident variables moved, not only inputs or results.
        executable: Identifier of the Executable.
    """

    type: int
    ordinal: int
    timestamp: float
    variables: bool
    executable: str


class UserOpCheck(NamedTuple):
    """Properties of a custom operation, as its library declares them.

    Attributes:
        library_hash: Stands for the contents of the library.
        hashable: Whether programs with the operation can be compiled for later.
        replica_identical: Outputs that are equal on all replicas.
    """

    library_hash: str
    hashable: bool
    replica_identical: tuple[int, ...]


# For each tensor of an element of a feed, rows of an array: one for each element or replica.
Rows = Sequence[Sequence[int]]


class Counts(NamedTuple):
    """Numbers of programs, launches and feeds in the engine.

    Attributes:
        programs: Programs that are loaded, in all sessions and in eager mode.
        launches: Launches that run or wait, without the embedded runtime's.
        infeeds: Infeeds that were initialized.
        outfeeds: Outfeeds that were used.
        statistics: Executables with statistics.
    """

    programs: int
    launches: int
    infeeds: int
    outfeeds: int
    statistics: int


def ops() -> ModuleType:
    """Returns the module of the native library's op functions (`ipu_launch`, ...).

    The first call connects the engine with the interpreter and the configuration.

    Raises:
        tf.errors.FailedPreconditionError: In a fork of a process that used IPUs.
    """
    system.use_process()
    return _connected_ops()


@functools.cache
def _connected_ops() -> ModuleType:
    interpreter.connect(load(), library_path())
    module = tf.load_op_library(str(library_path()))
    clean_errors_of(module)
    system.subscribe(_on_change)
    return module


def _on_change(attached: system.System) -> None:
    """Makes the engine follow a change of the configuration."""
    if system.is_fork():
        return
    wait_idle()
    load().tfipu_attach(attached.generation, len(attached.devices))


def _take_text(pointer: int) -> str:
    """Returns a text that the library allocated, and frees it."""
    text = ctypes.string_at(pointer).decode(errors="replace")
    load().tfipu_free(pointer)
    return text


def set_compiler(callback: Callable[[int], None]) -> Any:
    """Makes `callback` the compiler of the engine.

    Args:
        callback: called with the address of a request, from any thread. It has to answer with
            `reply` or `reply_error` before it returns.

    Returns:
        The C function. The caller keeps it alive as long as programs may run.
    """
    c_function = Callback(callback)
    load().tfipu_set_compiler(c_function)
    return c_function


def request_text(request: int) -> str:
    """Returns the text of a compile request (format: native/engine/c_api.cc)."""
    return _take_text(load().tfipu_request_text(request))


def reply(
    request: int,
    identifier: str,
    library: bytes,
    entry: str,
    replicas: int,
    instances: int,
    instance: int,
    fingerprint: str,
    on_device: bool,
) -> None:
    """Answers a compile request with a program.

    Args:
        request: address of the request.
        identifier: identifier of the Executable.
        library: serialised `FunctionDefLibrary`.
        entry: name of the function to run.
        replicas: how many replicas of this process run it.
        instances: how many processes run it together.
        instance: which of them this is.
        fingerprint: equal in processes that run the same program; empty if it has no collectives
            between them.
        on_device: False when the host evaluates the program, so no trace events are recorded.
    """
    load().tfipu_reply(
        request,
        identifier.encode(),
        library,
        len(library),
        entry.encode(),
        replicas,
        instances,
        instance,
        fingerprint.encode(),
        on_device,
    )


def reply_error(request: int, code: int, message: str) -> None:
    """Answers a compile request with an error.

    Args:
        request: address of the request.
        code: a `tf.errors` code.
        message: text of the error.
    """
    load().tfipu_reply_error(request, code, message.encode())


def set_error_writer(callback: Callable[[int], None] | None) -> Any:
    """Makes `callback` write the texts of errors that launches end with.

    Args:
        callback: called with the address of a request, from any thread. It may answer with
            `reply_error_text` before it returns. None: errors stay as they are.

    Returns:
        The C function. The caller keeps it alive as long as programs may run.
    """
    c_function = Callback() if callback is None else Callback(callback)
    load().tfipu_set_error_writer(c_function)
    return c_function


def set_value_needed(callback: Callable[[bytes], None]) -> Any:
    """Calls a function where the program needs a value, in a process that only plans.

    Args:
        callback: called with the name of the op, from any thread. It has to end the process.

    Returns:
        The C function. The caller keeps it alive.
    """
    c_function = NameCallback(callback)
    load().tfipu_set_value_needed(c_function)
    return c_function


def is_abstract(address: int) -> bool:
    """Returns whether the tensor at an address has no values."""
    return bool(load().tfipu_is_abstract(address))


def error_text(request: int) -> tuple[str, str]:
    """Returns the Cluster that an error comes from, and its message."""
    cluster, _, message = _take_text(load().tfipu_error_text(request)).partition("\n")
    return cluster, message


def reply_error_text(request: int, message: str) -> None:
    """Replaces the message of an error."""
    load().tfipu_reply_error_text(request, message.encode())


def reseed_devices(seed: int) -> None:
    """Reseeds the random generators of all TensorFlow devices, each with numbers of its own.

    Replicas go on to get equal or different seeds, as they did.

    Args:
        seed: any Python int; its low 64 bits count.
    """
    for ordinal in range(_DEVICES):
        reset_seed(ordinal, seed ^ ordinal << 48, _identical_replicas.get(ordinal, False))


def reset_seed(ordinal: int, seed: int, identical_replicas: bool) -> None:
    """Reseeds the random generator of `/device:IPU:<ordinal>`.

    Args:
        ordinal: TensorFlow device.
        seed: any Python int; its low 64 bits count.
        identical_replicas: whether all replicas of a program get the same seed.
    """
    low = (seed + 2**63) % 2**64 - 2**63
    _identical_replicas[ordinal] = identical_replicas
    load().tfipu_reset_seed(ordinal, low, identical_replicas)


def enable_events(enabled: bool) -> None:
    """Turns the recording of engine events on or off."""
    load().tfipu_enable_events(enabled)


def drain_events() -> list[EngineEvent]:
    """Returns the engine's events since the last call, oldest first."""
    events = []
    for line in _take_text(load().tfipu_drain_events()).splitlines():
        kind, ordinal, timestamp, variables, executable = line.split(" ", 4)
        events.append(
            EngineEvent(int(kind), int(ordinal), float(timestamp), variables == "1", executable)
        )
    return events


def statistics(executable: str) -> tuple[int, float]:
    """Returns how often an Executable was launched, and the host's wall time in it (seconds)."""
    launches, seconds = ctypes.c_int64(), ctypes.c_double()
    load().tfipu_statistics(executable.encode(), ctypes.byref(launches), ctypes.byref(seconds))
    return launches.value, seconds.value


def uniform_statistics(executable: str) -> tuple[int, int, int, int, int]:
    """Returns the shared work of an Executable, from its last launch on several replicas.

    Returns:
        Uniform ops, all ops, bytes of uniform variables, bytes of all variables, and bytes of the
        copies that replicas have of the others.
    """
    numbers = (ctypes.c_int64 * 5)()
    load().tfipu_uniform_statistics(executable.encode(), numbers)
    uniform_ops, ops, uniform_bytes, all_bytes, copied_bytes = numbers
    return uniform_ops, ops, uniform_bytes, all_bytes, copied_bytes


def log_launches(executable: str, line: str) -> None:
    """Makes the engine write a line to TensorFlow's log, level INFO, after each launch.

    Args:
        executable: identifier of the Executable.
        line: the line.
    """
    load().tfipu_log_launches(executable.encode(), line.encode())


def wait_idle() -> None:
    """Waits until no program runs. Signals are handled meanwhile."""
    while not system.is_fork() and not load().tfipu_wait_idle(_POLL_MICROSECONDS):
        pass


def placed_library(identifier: str) -> bytes:
    """Returns the functions of a Cluster that the engine made.

    Args:
        identifier: name of the Cluster.

    Returns:
        A serialised `FunctionDefLibrary` whose first function is the entry; empty if it is gone.
    """
    size = ctypes.c_int64()
    pointer = load().tfipu_placed_library(identifier.encode(), ctypes.byref(size))
    if not pointer:
        return b""
    library = ctypes.string_at(pointer, size.value)
    load().tfipu_free(pointer)
    return library


def gone_clusters() -> list[str]:
    """Returns the names of placed Clusters that were dropped since the last call."""
    return _take_text(load().tfipu_gone_clusters()).splitlines()


def forget_cluster(identifier: str) -> None:
    """Drops the engine's loaded programs of a Cluster, which nothing launches any more.

    Args:
        identifier: name of the Cluster.
    """
    if not system.is_fork():
        load().tfipu_forget_cluster(identifier.encode())


def forget_executable(identifier: str) -> None:
    """Drops the engine's statistics of an Executable.

    Args:
        identifier: identifier of the Executable.
    """
    if not system.is_fork():
        load().tfipu_forget_executable(identifier.encode())


def drop_feed(name: str, ordinal: int) -> None:
    """Drops the engine's part of a queue, which no program uses any more.

    Args:
        name: name of the queue.
        ordinal: device of the queue.
    """
    if not system.is_fork():
        load().tfipu_drop_feed(name.encode(), ordinal)


class ElementLayout:
    """Types and shapes of the tensors of an element, as the engine takes them.

    Attributes:
        count: How many tensors an element has.
        types: Number of the type of each.
        ranks: Rank of each.
        sizes: The dimensions of all, one after the other.
    """

    def __init__(self, specs: Sequence[tf.TensorSpec]) -> None:
        """Stores the specs as C arrays.

        Args:
            specs: type and shape of each tensor, fully defined.
        """
        sizes = [size for spec in specs for size in spec.shape]
        self.count = len(specs)
        self.types = (ctypes.c_int * self.count)(*(s.dtype.as_datatype_enum for s in specs))
        self.ranks = (ctypes.c_int * self.count)(*(spec.shape.rank for spec in specs))
        self.sizes = (ctypes.c_int64 * len(sizes))(*sizes)


def fill_infeed(
    name: str,
    ordinal: int,
    layout: ElementLayout,
    elements: int,
    arrays: Sequence[npt.NDArray[Any]],
    rows: Rows | None,
) -> None:
    """Copies arrays into an infeed without dataset, and drops its remaining elements.

    Args:
        name: name of the queue.
        ordinal: device of the queue.
        layout: the tensors of an element.
        elements: number of elements.
        arrays: for each tensor of an element an array in C order, of all elements.
        rows: for each tensor the row of its array for each element; None for row k for element k.
    """
    load().tfipu_fill_infeed(
        name.encode(),
        ordinal,
        layout.count,
        layout.types,
        layout.ranks,
        layout.sizes,
        elements,
        _addresses(arrays),
        _numbers(rows),
    )


def take_outfeed(
    name: str,
    ordinal: int,
    limit: int,
    arrays: Sequence[npt.NDArray[Any]] | None,
    rows: Rows | None = None,
) -> int:
    """Moves the elements of an outfeed into arrays.

    Args:
        name: name of the queue.
        ordinal: device of the queue.
        limit: capacity of the arrays, in groups of one element for each replica.
        arrays: for each tensor of an element an array in C order; None to drop the elements.
        rows: for each tensor the row of each replica's value in a group, or -1 to leave it out;
            None for row k for replica k.

    Returns:
        Number of groups. If it exceeds `limit`, they are lost.
    """
    addresses = None if arrays is None else _addresses(arrays)
    groups: int = load().tfipu_take_outfeed(
        name.encode(), ordinal, limit, addresses, _numbers(rows)
    )
    return groups


def _numbers(rows: Rows | None) -> Any:
    """Returns rows of arrays as the engine takes them, tensor by tensor."""
    if rows is None:
        return None
    numbers = [row for of_tensor in rows for row in of_tensor]
    return (ctypes.c_int64 * len(numbers))(*numbers)


def _addresses(arrays: Sequence[npt.NDArray[Any]]) -> Any:
    """Returns the memory addresses of arrays."""
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def counts() -> Counts:
    """Returns the numbers of programs, launches and feeds in the engine."""
    numbers = (ctypes.c_int64 * len(Counts._fields))()
    load().tfipu_counts(numbers)
    return Counts(*numbers)


def kernel_available(node_def: bytes) -> bool:
    """Returns whether the IPU has a kernel for the node of a serialised `NodeDef`."""
    return bool(load().tfipu_kernel_available(node_def, len(node_def)))


def check_user_op(node_def: bytes) -> UserOpCheck:
    """Loads the library of a custom operation and checks its symbols and API level.

    Args:
        node_def: serialised `NodeDef` of the operation.

    Returns:
        Properties of the operation.

    Raises:
        tf.errors.OpError: If the library or a symbol is missing, or the library is of another API
            level or contradicts itself.
    """
    code = ctypes.c_int()
    found = load().tfipu_check_user_op(node_def, len(node_def), ctypes.byref(code))
    text = _checked_text(found, code.value)
    library_hash, hashable, outputs = text.split(" ")
    identical = tuple(int(index) for index in outputs.split(",") if index)
    return UserOpCheck(library_hash, hashable == "1", identical)


def build_user_op(node_def: bytes, shapes: Sequence[Sequence[int]]) -> str:
    """Builds the program of a custom operation that is built against Poplar, once.

    Args:
        node_def: serialised `NodeDef` of the operation.
        shapes: the shapes of its inputs.

    Returns:
        What the program takes on the chip, as JSON; "" for operations that are no such programs.

    Raises:
        tf.errors.OpError: If the library has a fault, or its function fails.
    """
    numbers = [number for shape in shapes for number in (len(shape), *shape)]
    code = ctypes.c_int()
    text = load().tfipu_build_user_op(
        node_def, len(node_def), (ctypes.c_int64 * len(numbers))(*numbers), ctypes.byref(code)
    )
    return _checked_text(text, code.value)


def user_op_exchanges(node_def: bytes) -> bool:
    """Returns whether replicas exchange data in a program that was built of a custom operation.

    Args:
        node_def: serialised `NodeDef` of the operation.
    """
    return bool(load().tfipu_user_op_exchanges(node_def, len(node_def)))


def _checked_text(text: int, code: int) -> str:
    """Returns a text of the library, or raises the error that it is."""
    taken = _take_text(text)
    if code != 0:
        raise errors.exception_type_from_error_code(code)(None, None, taken)
    return taken
