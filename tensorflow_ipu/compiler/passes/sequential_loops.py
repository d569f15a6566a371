"""Pass: makes loops run one iteration at a time."""

from __future__ import annotations

from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.util import op_names


def run(program: Program, target: Target) -> None:
    """Sets every loop to one iteration at a time.

    A device program is sequential: iteration i + 1 reads its infeeds, writes its outfeeds and
    updates variables after iteration i. TensorFlow would let iterations overlap.

    Before: any legal Program. After: `parallel_iterations` of every loop is 1.
    """
    del target
    for _, node in program.nodes():
        if op_names.is_loop(node.op):
            node.attr["parallel_iterations"].i = 1
