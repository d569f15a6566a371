"""Pass: clears the devices of ops, because the engine runs them with the host's kernels."""

from __future__ import annotations

from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.target import Target

_COLOCATION = "_class"


def run(program: Program, target: Target) -> None:
    """Clears device and colocation requests.

    Before: any legal Program. After: no node asks for a device. Which IPU an op belongs to stays
    in its sharding attribute.
    """
    del target
    for _, node in program.nodes():
        node.ClearField("device")
        if _COLOCATION in node.attr:
            del node.attr[_COLOCATION]
