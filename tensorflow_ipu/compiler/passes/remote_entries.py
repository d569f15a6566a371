"""Pass: loads and stores of entries of remote buffers without copies."""

from __future__ import annotations

from tensorflow_ipu.compiler.ir.program import REMOTE_BUFFER_ATTRIBUTE, Program
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.util import op_names

_NATIVE = {
    "ResourceGather": op_names.REMOTE_LOAD,
    "ResourceScatterUpdate": op_names.REMOTE_STORE,
}
_ATTRIBUTES = ("Tindices", "batch_dims", "validate_indices")


def run(program: Program, target: Target) -> None:
    """Replaces gathers and scatters of remote buffers by ops that pass on the tensor of an entry.

    A gather copies its rows. A variable that rows are scattered to shares no memory with others.

    Before: any legal Program. After: no op marked as one of a remote buffer gathers or scatters.
    """
    del target
    for _, node in program.nodes():
        if REMOTE_BUFFER_ATTRIBUTE not in node.attr or node.op not in _NATIVE:
            continue
        node.op = _NATIVE[node.op]
        for name in _ATTRIBUTES:
            node.attr.pop(name, None)
