"""Files of named tensors, and ops that write data to them: module `ipu.dataset_extractor`.

A file is a zip archive without compression. It holds one NumPy `.npy` file per tensor, and
`index.json`:

    {"format": "tensorflow_ipu tensors", "version": 1,
     "tensors": [{"name": "w", "kind": "parameter", "dtype": "float32", "shape": [2, 3],
                  "member": "0.npy"}, ...]}

`dtype` is the TensorFlow name. A type that NumPy lacks (bfloat16) is stored as the unsigned
integers with its bits.
"""

from __future__ import annotations

import enum
import io
import json
import os
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.data.util import structure
from tensorflow.python.framework import dtypes, ops
from tensorflow.python.ops import script_ops

from tensorflow_ipu.configs.ranges import COUNT
from tensorflow_ipu.feeds import common
from tensorflow_ipu.runtime import interpreter, native
from tensorflow_ipu.util import archives, private_files

__all__ = ["dataset_extractor", "dataset_to_files", "export_variables", "import_variables"]
_FORMAT = "tensorflow_ipu tensors"
_VERSION = 1
_INDEX = "index.json"
_WHAT = "a file of tensors that ipu.utils.export_* functions wrote"


class TensorKind(str, enum.Enum):
    """The role of a tensor in a file: input, parameter or element of an infeed."""

    INPUT = "input"
    PARAMETER = "parameter"
    INFEED = "infeed"


@dataclass(frozen=True)
class TensorInfo:
    """Name, kind, type and shape of a tensor in a file.

    Attributes:
        name: Its name.
        kind: Its role in a program.
        dtype: TensorFlow name of its type.
        shape: Its shape. For an infeed stream, the first dimension counts elements.
    """

    name: str
    kind: TensorKind
    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def from_json(cls, entry: dict[str, Any], kind: TensorKind | None = None) -> TensorInfo:
        """Reads an entry of an index, or of a list of tensors of one kind.

        Args:
            entry: the entry, as JSON has it.
            kind: role of the tensors of the list; None if each entry has it.

        Raises:
            ValueError: If it is no such entry.
        """
        try:
            name, shape = entry["name"], entry["shape"]
            kind = kind or TensorKind(entry["kind"])
            dtype = dtypes.as_dtype(entry["dtype"]).name
        except (KeyError, TypeError) as error:
            raise ValueError(f"{entry!r} does not describe a tensor: {error}") from error
        sizes = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
        if not isinstance(name, str) or not sizes:
            raise ValueError(f"{entry!r} does not describe a tensor: name or shape is none")
        return cls(name, kind, dtype, tuple(shape))

    def describe(self) -> str:
        """Returns the name, type and shape for a message."""
        return f"{self.name}: {self.dtype}{list(self.shape)}"


def write(
    filename: str | os.PathLike[str], tensors: Iterable[tuple[str, TensorKind, npt.NDArray[Any]]]
) -> int:
    """Writes a file, replacing any that is there.

    Args:
        filename: the target file.
        tensors: name, kind and value of each tensor.

    Returns:
        Size of the file in bytes.

    Raises:
        OSError: If the file cannot be written; an earlier file is unchanged.
        ValueError: If two tensors have one name, or a tensor holds no numbers.
    """
    entries: list[dict[str, Any]] = []
    with private_files.replacing(filename) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, kind, value in tensors:
                if any(entry["name"] == name for entry in entries):
                    raise ValueError(f"There are two tensors called '{name}' for {filename}.")
                dtype = dtypes.as_dtype(value.dtype)
                member = f"{len(entries)}.npy"
                with archive.open(member, "w", force_zip64=True) as stream:
                    np.save(stream, _storable(name, value), allow_pickle=False)
                entry = {"name": name, "kind": kind.value, "dtype": dtype.name}
                entries.append({**entry, "shape": list(value.shape), "member": member})
            index = {"format": _FORMAT, "version": _VERSION, "tensors": entries}
            archive.writestr(_INDEX, json.dumps(index, indent=1))
    return os.path.getsize(filename)


def write_and_report(
    filename: str | os.PathLike[str],
    tensors: Sequence[tuple[str, TensorKind, npt.NDArray[Any]]],
    print_stats: bool,
) -> None:
    """Writes a file as `write` does, and prints a summary if `print_stats`."""
    size = write(filename, tensors)
    if print_stats:
        print(f"Wrote {len(tensors)} tensors, {size} bytes, to {os.fspath(filename)}")


def _storable(name: str, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns an array that the `.npy` format can hold."""
    if value.dtype.kind in "OUS":
        raise ValueError(f"The tensor '{name}' holds text; only numbers can be written.")
    return value.view(f"u{value.dtype.itemsize}") if value.dtype.kind == "V" else value


def _index(archive: zipfile.ZipFile) -> list[dict[str, Any]]:
    """Returns the entries of an open file.

    Raises:
        ValueError: If it is of another format or version.
    """
    index = archives.read_json(archive, _INDEX)
    if index.get("format") != _FORMAT or index.get("version") != _VERSION:
        raise ValueError(f"{_INDEX} does not say that it is '{_FORMAT}', version {_VERSION}")
    return list(index["tensors"])


def read_index(filename: str | os.PathLike[str]) -> list[TensorInfo]:
    """Returns the index of a file: its tensors in the order they were written.

    Args:
        filename: a file that `write` made.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it was not made by `write`, or is damaged.
    """
    with archives.reading(filename, _WHAT) as archive:
        return [TensorInfo.from_json(entry) for entry in _index(archive)]


def read_tensor(filename: str | os.PathLike[str], name: str) -> npt.NDArray[Any]:
    """Returns the value of one tensor of a file.

    Args:
        filename: a file that `write` made.
        name: name of the tensor.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it was not made by `write`, is damaged, or has no such tensor.
    """
    with archives.reading(filename, _WHAT) as archive:
        for entry in _index(archive):
            info = TensorInfo.from_json(entry)
            if info.name == name:
                return _value(archive.read(entry["member"]), info)
    raise ValueError(f"There is no tensor '{name}' in {filename}.")


def _value(content: bytes, info: TensorInfo) -> npt.NDArray[Any]:
    """Returns the tensor in the content of an `.npy` file."""
    stored: npt.NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    value = stored.view(dtypes.as_dtype(info.dtype).as_numpy_dtype)
    if value.shape != info.shape:
        raise ValueError(f"{info.name} has the shape {list(value.shape)}, not {list(info.shape)}")
    return value


# --- Variables ---


def export_variables(
    variables: Sequence[Any],
    filename: str | os.PathLike[str],
    is_input: bool = True,
    metadata: str | os.PathLike[str] | None = None,
    print_stats: bool = True,
) -> ops.Operation | None:
    """Writes the values of variables to one file, under their names without ":0".

    Args:
        variables: the variables.
        filename: where to.
        is_input: whether they are marked as inputs of a program, or as its parameters.
        metadata: a JSON file with the tensors that a program expects, which must be exactly these:
            `{"inputs": [{"name": "x", "dtype": "float32", "shape": [2]}], "parameters": [...]}`.
        print_stats: whether to print a summary.

    Returns:
        In graph mode an op that writes the file; in eager mode the file is written now.

    Raises:
        ValueError: If the variables differ from the metadata, two have one name, or a shape is not
            fully defined.
    """
    kind = _kind(is_input)
    found = variable_infos(variables, kind)
    if metadata is not None:
        _check_same(_expected_by(metadata, kind), found, f"the metadata {os.fspath(metadata)}")
    names = [info.name for info in found]

    def save(*values: npt.NDArray[Any]) -> None:
        tensors = [(name, kind, value) for name, value in zip(names, values)]
        write_and_report(filename, tensors, print_stats)

    with common.on_host():
        return script_ops.numpy_function(
            save, [ops.convert_to_tensor(variable) for variable in variables], []
        )


def import_variables(
    variables: Sequence[Any],
    filenames: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    is_input: bool = True,
    strict: bool = True,
    print_stats: bool = True,
) -> list[Any]:
    """Assigns values from files to the variables of the same names.

    Args:
        variables: the variables.
        filenames: one file or several.
        is_input: whether to use the files' inputs of a program, or its parameters.
        strict: whether there must be a value for each variable and a variable for each value.
            Otherwise values and variables without counterpart are ignored.
        print_stats: whether to print a summary.

    Returns:
        The assignments: ops in graph mode; in eager mode they are done.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If types or shapes differ, or (`strict`) names do.
    """
    kind = _kind(is_input)
    if isinstance(filenames, (str, os.PathLike)):
        filenames = [filenames]
    sources = {
        info.name: (info, filename)
        for filename in filenames
        for info in read_index(filename)
        if info.kind is kind
    }
    infos = variable_infos(variables, kind)
    available = [info for info, _ in sources.values()]
    wanted = infos
    if not strict:
        names = {info.name for info in infos}
        available = [info for info in available if info.name in names]
        wanted = [info for info in infos if info.name in sources]
    _check_same(available, wanted, f"the files {[os.fspath(name) for name in filenames]}")
    if print_stats:
        print(f"Reading {len(wanted)} variables from {[os.fspath(name) for name in filenames]}")
    by_name = {info.name: variable for info, variable in zip(infos, variables)}
    return [_assign(by_name[info.name], info, sources[info.name][1]) for info in wanted]


def _assign(variable: Any, info: TensorInfo, filename: str | os.PathLike[str]) -> Any:
    """Assigns a tensor of a file to a variable. The file is read when the op runs."""

    def load() -> npt.NDArray[Any]:
        return read_tensor(filename, info.name)

    with common.on_host():
        value = script_ops.numpy_function(load, [], dtypes.as_dtype(info.dtype))
        value.set_shape(info.shape)
    return variable.assign(value, read_value=False)


def _kind(is_input: bool) -> TensorKind:
    return TensorKind.INPUT if is_input else TensorKind.PARAMETER


def variable_infos(variables: Sequence[Any], kind: TensorKind) -> list[TensorInfo]:
    """Returns name, type and shape of variables.

    Args:
        variables: the variables.
        kind: their role in a program.

    Raises:
        ValueError: If a shape is not fully defined, or two variables have one name.
    """
    infos = [
        TensorInfo(
            variable.name.split(":")[0],
            kind,
            dtypes.as_dtype(variable.dtype).base_dtype.name,
            tuple(variable.shape.as_list()),
        )
        for variable in variables
    ]
    names = [info.name for info in infos]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"Variables need different names. Several are called {repeated}.")
    return infos


def _expected_by(metadata: str | os.PathLike[str], kind: TensorKind) -> list[TensorInfo]:
    """Reads the tensors of one kind that a metadata file expects.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it does not list tensors.
    """
    try:
        content = json.loads(Path(metadata).read_bytes())
        entries = content.get("inputs" if kind is TensorKind.INPUT else "parameters", [])
        return [TensorInfo.from_json(entry, kind) for entry in entries]
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(
            f"The metadata {os.fspath(metadata)} must be JSON such as "
            '{"inputs": [{"name": "x", "dtype": "float32", "shape": [2]}], "parameters": []}; '
            f"received {error}."
        ) from error


def _check_same(expected: Sequence[TensorInfo], found: Sequence[TensorInfo], source: str) -> None:
    """Compares two sets of tensors.

    Raises:
        ValueError: If they differ, with the differences.
    """
    difference = [
        *(f"only in {source}: {info.describe()}" for info in expected if info not in found),
        *(f"only among the variables: {info.describe()}" for info in found if info not in expected),
    ]
    if difference:
        raise ValueError(f"The variables do not match {source}:\n" + "\n".join(difference))


# --- Datasets ---

_DEFAULT_FEED_NAME = "infeed"


def dataset_extractor(
    dataset: dataset_ops.DatasetV2,
    num_elements: int,
    filename: str | os.PathLike[str],
    feed_name: str = "",
    print_stats: bool = True,
    apply_options: bool = True,
) -> ops.Operation | None:
    """Writes the first elements of a dataset to one file.

    Each tensor of an element gives one stream, `<feed_name>.<i>` in the order of flattening, that
    holds its values stacked to `[num_elements] + S`.

    Args:
        dataset: the dataset; the shapes of its elements must be fully defined.
        num_elements: number of elements to write.
        filename: the target file.
        feed_name: first part of the names of the streams; "infeed" when empty.
        print_stats: whether to print a summary.
        apply_options: whether to apply the options of tf.data that are for debugging.

    Returns:
        In graph mode an op that writes the file; in eager mode the file is written now. Too few
        elements are a `tf.errors.OutOfRangeError`.

    Raises:
        TypeError: If `dataset` is no dataset.
        ValueError: If `num_elements` is below 1, or a shape is not fully defined.
    """
    names = _stream_names(dataset, feed_name)
    return _write_streams(dataset, num_elements, [(filename, names)], print_stats, apply_options)


def dataset_to_files(
    dataset: dataset_ops.DatasetV2,
    num_elements: int,
    filename: str | os.PathLike[str],
    feed_name: str = "",
    apply_options: bool = True,
) -> ops.Operation | None:
    """Writes the first elements of a dataset, each tensor of an element to a file of its own.

    With several tensors, `<i>` goes into each filename before its extension: `data.0.bin`.

    Args:
        dataset: as for `dataset_extractor`.
        num_elements: as for `dataset_extractor`.
        filename: the filename without `<i>`; used as it is for elements of one tensor.
        feed_name: as for `dataset_extractor`.
        apply_options: as for `dataset_extractor`.

    Returns:
        As for `dataset_extractor`.

    Raises:
        TypeError: If `dataset` is no dataset.
        ValueError: If `num_elements` is below 1, or a shape is not fully defined.
    """
    names = _stream_names(dataset, feed_name)
    files: list[tuple[str | os.PathLike[str], list[str]]] = [(filename, names)]
    if len(names) > 1:
        stem, extension = os.path.splitext(os.fspath(filename))
        files = [(f"{stem}.{i}{extension}", [name]) for i, name in enumerate(names)]
    return _write_streams(dataset, num_elements, files, False, apply_options)


def _stream_names(dataset: dataset_ops.DatasetV2, feed_name: str) -> list[str]:
    """Returns the name of the stream for each tensor of an element."""
    if not isinstance(dataset, dataset_ops.DatasetV2):
        raise TypeError(f"Expected a tf.data.Dataset. Received: dataset={dataset!r}")
    count = len(structure.get_flat_tensor_types(dataset.element_spec))
    return [f"{feed_name or _DEFAULT_FEED_NAME}.{i}" for i in range(count)]


def _write_streams(
    dataset: dataset_ops.DatasetV2,
    num_elements: int,
    files: Sequence[tuple[str | os.PathLike[str], Sequence[str]]],
    print_stats: bool,
    apply_options: bool,
) -> ops.Operation | None:
    """Writes the tensors of a dataset's elements to files, given the names for each file."""
    num_elements = COUNT.whole("num_elements", num_elements)
    shapes = structure.get_flat_tensor_shapes(dataset.element_spec)
    for shape in shapes:
        if not shape.is_fully_defined():
            raise ValueError(
                f"The shape {shape} in {dataset.element_spec} is not fully defined. Use "
                "dataset.batch(..., drop_remainder=True), or tf.ensure_shape in a map."
            )
    if apply_options:
        dataset = dataset._apply_debug_options()

    def save(*values: npt.NDArray[Any]) -> None:
        remaining = iter(values)
        for filename, names in files:
            streams = [(name, TensorKind.INFEED, next(remaining)) for name in names]
            write_and_report(filename, streams, print_stats)

    with common.on_host():
        values = interpreter.call(
            native.ops().ipu_dataset_extract,
            dataset._variant_tensor,
            num_elements=num_elements,
            output_types=structure.get_flat_tensor_types(dataset.element_spec),
            output_shapes=shapes,
        )
        return script_ops.numpy_function(save, values, [])
