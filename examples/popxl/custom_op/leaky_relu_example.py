"""Trains one step through an operation of C++ in PopXL: a leaky ReLU with its gradient.

    pip install 'tensorflow_ipu[custom-ops]'
    cd examples/popxl/custom_op
    python leaky_relu_example.py

`leaky_relu.cpp` has the operation, its gradient operation, and how both run. It is compiled when it
is imported first, and again when it changes.
"""

from __future__ import annotations

from pathlib import Path

import cppimport
import numpy as np
import popxl
from popxl.context import get_current_context, op_debug_context
from popxl.ops.utils import check_in_graph

leaky_relu_module = cppimport.imp_from_filepath(str(Path(__file__).with_name("leaky_relu.cpp")))


@op_debug_context
def leaky_relu(x: popxl.Tensor, alpha: float = 0.01) -> popxl.Tensor:
    """Adds the operation to the current graph.

    Args:
        x: its input.
        alpha: the factor of negative elements.
    """
    context = get_current_context()
    graph = context.graph
    check_in_graph(graph, x=x)
    op = leaky_relu_module.LeakyRelu.create_op_in_graph(
        graph=graph._pb_graph,
        inputs={0: x.id},
        outputs={0: graph._create_tensor_id("leaky_relu_out")},
        params=leaky_relu_module.LeakyReluParams(alpha=alpha),
        settings=context._get_op_settings("leaky_relu"),
    )
    context._op_created(op)
    return popxl.Tensor._from_pb_tensor(op.outTensor(0))


def main() -> None:
    """Prints the outputs and the gradients of a few numbers."""
    values = np.array([-2.0, -0.5, 0.0, 1.5], np.float32)
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(values, name="x")
        graph = ir.create_graph(leaky_relu, x, alpha=0.1)
        call = popxl.ops.call_with_info(graph, x)
        (y,) = call.outputs
        gradients = popxl.transforms.autodiff(graph)
        (dx,) = popxl.ops.call(
            gradients.graph,
            popxl.constant(np.ones_like(values)),
            inputs_dict=gradients.inputs_dict(call),
        )
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in (y, dx)]
        for stream, tensor in zip(streams, (y, dx)):
            popxl.ops.host_store(stream, tensor)
    with popxl.Session(ir, "ipu_model") as session:
        outputs = session.run()
    print("outputs  ", outputs[streams[0]])
    print("gradients", outputs[streams[1]])


if __name__ == "__main__":
    main()
