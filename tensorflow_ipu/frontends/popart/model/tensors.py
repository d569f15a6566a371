"""Values inside models: tensors of ONNX with their elements in typed fields."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

_T = onnx.TensorProto
# Types whose elements are in a field of floating-point numbers, which is laid out as the array is.
_PLAIN: Mapping[int, str] = {_T.FLOAT: "float_data", _T.DOUBLE: "double_data"}
_LONG: Mapping[int, str] = {
    _T.INT64: "int64_data",
    _T.UINT32: "uint64_data",
    _T.UINT64: "uint64_data",
}
_SHORT = frozenset({_T.INT32, _T.INT8, _T.UINT8, _T.INT16, _T.UINT16, _T.BOOL, _T.FLOAT16})
_BITS_OF_BYTE = 7


def made(array: np.ndarray, name: str = "") -> onnx.TensorProto:
    """Returns a tensor with the value of an array.

    Args:
        array: the value.
        name: name of the tensor.
    """
    number = int(helper.np_dtype_to_tensor_dtype(array.dtype))
    tensor = onnx.TensorProto(data_type=number, dims=array.shape)
    if name:
        tensor.name = name
    flat = np.ascontiguousarray(array).reshape(-1)
    if number in _PLAIN:
        if flat.size:
            # As the field is written: one copy, where `extend` takes the elements one by one.
            field = _T.DESCRIPTOR.fields_by_name[_PLAIN[number]].number
            data = flat.astype(flat.dtype.newbyteorder("<"), copy=False).tobytes()
            tensor.MergeFromString(_varint(field << 3 | 2) + _varint(len(data)) + data)
    elif number in _LONG:
        getattr(tensor, _LONG[number]).extend(flat.tolist())
    elif number in _SHORT:
        bits = flat.view(np.uint16) if number == _T.FLOAT16 else flat.astype(np.int32, copy=False)
        tensor.int32_data.extend(bits.tolist())
    else:
        tensor.raw_data = flat.tobytes()
    return tensor


def value(tensor: onnx.TensorProto) -> np.ndarray:
    """Returns the value of a tensor that is not kept in a file of its own.

    Numbers of BFLOAT16, which NumPy lacks, are float32.

    Args:
        tensor: the tensor.
    """
    if tensor.data_type == _T.BFLOAT16:
        bits = np.frombuffer(tensor.raw_data, "<u2") if tensor.raw_data else tensor.int32_data
        wide = np.asarray(bits, np.uint32) << 16
        return wide.view(np.float32).reshape(tuple(tensor.dims))
    field = _PLAIN.get(tensor.data_type)
    if field is None or tensor.HasField("raw_data") or not getattr(tensor, field):
        return numpy_helper.to_array(tensor)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    alone = onnx.TensorProto()
    alone.CopyFrom(tensor)
    for present, _ in tensor.ListFields():
        if present.name != field:
            alone.ClearField(present.name)
    size = len(getattr(tensor, field)) * dtype.itemsize
    data = alone.SerializeToString()[-size:]
    array = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)
    return array.reshape(tuple(tensor.dims))


def _varint(number: int) -> bytes:
    """Returns a number as files of protocol buffers hold it."""
    found = bytearray()
    while number >> _BITS_OF_BYTE:
        found.append(number & 0x7F | 0x80)
        number >>= _BITS_OF_BYTE
    return bytes([*found, number])
