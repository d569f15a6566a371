"""Values of weights that are kept in files beside a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import external_data_helper, numpy_helper

from tensorflow_ipu import private_files
from tensorflow_ipu.frontends.popart.errors import popart_exception


def save(graph: onnx.GraphProto, ids: Sequence[str], path: Path) -> None:
    """Moves values of weights into a file.

    Args:
        graph: the graph with the weights.
        ids: the weights.
        path: the file; one that is there is replaced.

    Raises:
        popart_exception: If one is no weight or is in a file already, or the folder is missing.
        OSError: If the file cannot be written.
    """
    if not path.parent.is_dir():
        raise popart_exception(
            f"Cannot save to {path}: its parent directory does not exist. Make it first."
        )
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for name in ids:
        if name not in tensors:
            raise popart_exception(
                f"Tensor {name} is not an initializer. There are: {', '.join(tensors) or 'none'}."
            )
        if tensors[name].data_location == onnx.TensorProto.EXTERNAL:
            raise popart_exception(f"Tensor {name} already has an external data_location.")
    data = b""
    for name in ids:
        raw = numpy_helper.to_array(tensors[name]).tobytes()
        _point(tensors[name], str(path), len(data), len(raw))
        data += raw
    private_files.write_bytes(path, data)


def load(tensor: onnx.TensorProto) -> None:
    """Brings the value of a weight from its file into the model.

    Args:
        tensor: the weight; nothing happens to one that has its value.

    Raises:
        popart_exception: If the file cannot be read.
    """
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return
    found = external_data_helper.ExternalDataInfo(tensor)
    try:
        with open(found.location, "rb") as file:
            file.seek(found.offset or 0)
            data = file.read(found.length or -1)
    except OSError as error:
        raise popart_exception(
            f"Cannot read the value of the tensor {tensor.name} from {found.location}: {error}"
        ) from error
    tensor.raw_data = data
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]


def _point(tensor: onnx.TensorProto, location: str, offset: int, length: int) -> None:
    """Replaces the value of a tensor by its place in a file."""
    for field in ("raw_data", "float_data", "int32_data", "int64_data", "uint64_data"):
        tensor.ClearField(field)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
