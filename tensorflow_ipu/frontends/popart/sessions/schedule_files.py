"""Files of the order of nodes: `SessionOptions.serializedPoprithmsShiftGraphsDir`."""

from __future__ import annotations

import json
from collections.abc import Sequence

import onnx

from tensorflow_ipu.util import private_files


def write(nodes: Sequence[onnx.NodeProto], folder: str, name: str) -> None:
    """Writes the graph of the schedule: ops in their order, and which have to come before.

    Args:
        nodes: the nodes in the order of the program.
        folder: where to; made if it is missing.
        name: the name of the session.

    Raises:
        OSError: If it cannot be written.
    """
    makers = {tensor: number for number, node in enumerate(nodes) for tensor in node.output}
    ops = [
        {
            "address": number,
            "debugString": f"{node.op_type} {node.name}".strip(),
            "ins": sorted({makers[tensor] for tensor in node.input if tensor in makers}),
        }
        for number, node in enumerate(nodes)
    ]
    path = private_files.make_folder(folder) / f"shift_graph_{name}.json"
    private_files.write_text(path, json.dumps({"ops": ops}, indent=1))
