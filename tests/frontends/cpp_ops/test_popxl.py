"""Operations of C++ libraries in graphs of PopXL; values and gradients as of NumPy."""

from __future__ import annotations

import numpy as np
import popart
import popart._internal.ir as _ir
import popxl
import pytest
from popxl.context import get_current_context, op_debug_context
from popxl.ops.utils import check_in_graph

from tensorflow_ipu.frontends.cpp_ops import binding
from tensorflow_ipu.frontends.popxl import libraries

X = np.array([[1.5, -2.0, 0.25], [-0.5, 4.0, -1.0]], np.float32)


@op_debug_context
def leaky(module, x, alpha=0.1):
    """Adds the op as the documents' wrapper does."""
    context = get_current_context()
    graph = context.graph
    check_in_graph(graph, x=x)
    op = module.LeakyRelu.create_op_in_graph(
        graph=graph._pb_graph,
        inputs={0: x.id},
        outputs={0: graph._create_tensor_id("leaky_out")},
        params=module.LeakyReluParams(alpha=alpha),
        settings=context._get_op_settings("leaky"),
    )
    context._op_created(op)
    return popxl.Tensor._from_pb_tensor(op.outTensor(0))


def run(ir, *tensors):
    """Runs an Ir whose main graph is open; returns values of its tensors."""
    streams = [popxl.d2h_stream(tensor.shape, tensor.dtype) for tensor in tensors]
    for stream, tensor in zip(streams, tensors):
        popxl.ops.host_store(stream, tensor)
    with popxl.Session(ir, "ipu_model") as session:
        outputs = session.run()
    return [outputs[stream] for stream in streams]


@pytest.mark.parametrize("replicas", [1, 2])
def test_values_and_gradients(leaky_relu, replicas):
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph:
        x = popxl.variable(X)
        graph = ir.create_graph(lambda x: leaky(leaky_relu, leaky(leaky_relu, x, 0.5), 0.25), x)
        call = popxl.ops.call_with_info(graph, x)
        info = popxl.transforms.autodiff(graph)
        seed = popxl.constant(2 * np.ones_like(X))
        (dx,) = popxl.ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call))
        y, dx = run(ir, call.outputs[0], dx)
    scale = np.where(X < 0, np.float32(0.125), np.float32(1))
    for found, wanted in ((y, X * scale), (dx, 2 * scale)):
        np.testing.assert_allclose(found, np.broadcast_to(wanted, found.shape), 1e-6)


def test_one_tensor_for_each_id(leaky_relu):
    ir = popxl.Ir()
    with ir.main_graph, popxl.name_scope("layer"):
        x = popxl.variable(X, name="x")
        y = leaky(leaky_relu, x)
        assert y.shape == X.shape and y.dtype == popxl.float32
        assert y.id.startswith("layer/")
        assert y is ir.main_graph.get_tensor(y.id)


def test_hooks_see_the_op(leaky_relu):
    seen = []
    ir = popxl.Ir()
    handle = get_current_context().register_op_created_hook(seen.append)
    with ir.main_graph:
        x = popxl.variable(X)
        leaky(leaky_relu, x)
    get_current_context().remove_op_created_hook(handle)
    assert [op.opType() for op in seen] == ["LeakyRelu"]


def test_settings_have_name_and_ipu(leaky_relu):
    ir = popxl.Ir()
    with ir.main_graph, popxl.name_scope("outer"), popxl.ipu(1):
        settings = get_current_context()._get_op_settings("op")
    assert settings.name == "outer/op"
    assert settings.vgraphId.value() == 1


def test_ops_of_python_describe_themselves(leaky_relu):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X, name="x")
        op = leaky_relu.LeakyRelu.create_op_in_graph(
            ir.main_graph._pb_graph,
            {0: x.id},
            {0: "out"},
            leaky_relu.LeakyReluParams(0.5),
            get_current_context()._get_op_settings("op"),
        )
    assert op.params.alpha == 0.5
    assert op.opType() == "LeakyRelu"
    assert op.inId(0) == "x" and op.outShape(0) == [2, 3]
    assert op.debugName() == "Op(op (example.ops.LeakyRelu:1), inputs=[x], outputs=[out])"
    assert leaky_relu.LeakyRelu.default_opid().type == "LeakyRelu"


def test_unknown_tensors_are_errors(leaky_relu):
    ir = popxl.Ir()
    with ir.main_graph, pytest.raises(popart.popart_exception, match="No Ir::Tensor with TensorId"):
        leaky_relu.LeakyRelu.create_op_in_graph(
            ir.main_graph._pb_graph,
            {0: "nowhere"},
            {0: "out"},
            leaky_relu.LeakyReluParams(),
            get_current_context()._get_op_settings("op"),
        )


@pytest.mark.usefixtures("operations")
def test_session_options_reach_the_lowering():
    ir = popxl.Ir()
    with ir.main_graph:
        popxl.variable(X, name="x")
        libraries.program_of(ir).create_op(
            ("test.cpp", "NegateInPlace", 1), "negate", {}, ["x"], ["y"]
        )
        y = ir.main_graph.get_tensor("y")
        ir._pb_ir.getSessionOptions().opxAliasChecking = True
        with pytest.raises(popart.popart_exception, match="the Poplar tensors disagree"):
            run(ir, y)


def test_bindings_take_enumerations_of_python(leaky_relu):
    module = binding.load()
    assert module.TensorInfo(_ir.DataType.FLOAT16, [2]).data_type() == "FLOAT16"
    assert module.CommGroup(_ir.CommGroupType.Orthogonal, 2)
    with pytest.raises(TypeError):
        module.TensorInfo(_ir.TileSet.IO, [2])


def test_bindings_take_replica_groupings(leaky_relu):
    ir = popxl.Ir(replication=4)
    found = ir.replica_grouping(stride=2)._pb_replica_grouping
    assert (found.getNumReplicas(), found.getStride(), found.getGroupSize()) == (4, 2, 2)


def test_names_of_bindings_are_there(leaky_relu):
    opid = _ir.OperatorIdentifier("domain", "Type", 2, _ir.NumInputs(1, 2), 1)
    assert (opid.domain, opid.version, opid.numInputs.max) == ("domain", 2, 2)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = _ir.nothing
