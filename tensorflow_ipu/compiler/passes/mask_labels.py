"""Pass: makes loss and gradient NaN for labels that are no class."""

from __future__ import annotations

from tensorflow_ipu.compiler.ir.function_editor import (
    FunctionEditor,
    data_inputs,
    replace_data_inputs,
)
from tensorflow_ipu.compiler.ir.program import OUTSIDE_ATTRIBUTE, Program, host_functions
from tensorflow_ipu.compiler.ir.target import Target

_LOSS = "SparseSoftmaxCrossEntropyWithLogits"


def run(program: Program, target: Target) -> None:
    """Makes loss and gradient NaN for examples whose label is no class.

    Compiled programs do that. TensorFlow's kernel for the CPU ends with an error, and so would a
    program whose data have such labels for examples that do not count.

    Before: any legal Program. After: the same, but for such labels. Ops outside compilation stay as
    they are.
    """
    del target
    outside = host_functions(program)
    for name, function in program.functions.items():
        losses = [
            node
            for node in function.node_def
            if node.op == _LOSS and OUTSIDE_ATTRIBUTE not in node.attr
        ]
        if not losses or name in outside:
            continue
        editor = FunctionEditor(function)
        for node in losses:
            mask = editor.add(
                f"{node.name}/ipu_labels",
                "IpuMaskLabels",
                data_inputs(node),
                T=node.attr["T"].type,
                Tlabels=node.attr["Tlabels"].type,
            )
            outputs = [f"{mask.name}:masked_logits:0", f"{mask.name}:masked_labels:0"]
            replace_data_inputs(node, outputs)
