"""Words of errors about ops: names of nodes, shapes and types, written as in the original.

An op writes `OP` or `KIND` where its error names the node; the lowering puts the name there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx

from tensorflow_ipu.frontends.popart import datatypes

#: Stands for the node in the error of an op, with its inputs and outputs.
OP = "<op>"
#: Stands for domain, type and version of the op.
KIND = "<kind>"


def filled(text: str, node: onnx.NodeProto, since: int) -> str:
    """Returns the text of an error with the names of a node.

    Args:
        text: the text.
        node: the node.
        since: version of the op.
    """
    kind = f"{node.domain or 'ai.onnx'}.{node.op_type}:{since}"
    if OP in text:
        text = text.replace(
            OP,
            f"Op({node.name or kind}, inputs=[{', '.join(node.input)}], "
            f"outputs=[{', '.join(node.output)}])",
        )
    return text.replace(KIND, kind)


def shape(sizes: Iterable[int]) -> str:
    """Returns a shape such as `[3 4]`.

    Args:
        sizes: the sizes of its dimensions.
    """
    return f"[{' '.join(str(int(size)) for size in sizes)}]"


def type_name(dtype: Any) -> str:
    """Returns PopART's name of a type of TensorFlow's.

    Args:
        dtype: the type.
    """
    return datatypes.of_tf(dtype).name


def info(tensor: Any) -> str:
    """Returns type and shape of a tensor, such as `INT32   [2 5]`.

    Args:
        tensor: the tensor.
    """
    return f"{type_name(tensor.dtype).ljust(8)}{shape(tensor.shape)}"
