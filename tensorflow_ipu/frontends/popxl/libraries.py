"""Operations of users' C++ libraries in graphs.

A graph has a counterpart in `libpopart`. It asks for the tensors that ops take there, and tells of
each op that is made.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.cpp_ops import binding
from tensorflow_ipu.frontends.cpp_ops.ops import GRADIENT, OPTIONS, CppIr, CppOp
from tensorflow_ipu.frontends.popxl import context, dtypes
from tensorflow_ipu.frontends.popxl.core import scopes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, ir_method
from tensorflow_ipu.frontends.popxl.core.shapes import Specs, TensorSpec
from tensorflow_ipu.frontends.popxl.ir import Constant, Graph, Ir, Op, Tensor
from tensorflow_ipu.frontends.popxl.replica_grouping import ReplicaGrouping

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.transforms.differentiation import Backward

_TYPES = {"float32": "FLOAT", "float64": "DOUBLE"}
_DTYPES = {type_: name for name, type_ in _TYPES.items()}

_mirrors: weakref.WeakKeyDictionary[Ir, CppIr] = weakref.WeakKeyDictionary()
_kinds: dict[tuple[str, bool], OpKind] = {}


@ir_method("pb_graph")
def counterpart(graph: Graph) -> Any:
    """Returns the graph of the library that stands for a graph.

    Args:
        graph: the graph.
    """
    return binding.load().graph_at(program_of(graph.ir).graph(graph.id))


@ir_method("pb_replica_grouping")
def grouping(of: ReplicaGrouping) -> Any:
    """Returns the grouping of the library that stands for one.

    Args:
        of: the grouping.
    """
    return binding.load().ReplicaGrouping(of.num_replicas, of.stride, of.group_size)


@ir_method("from_pb_tensor")
def tensor_of(pb_tensor: Any) -> Tensor:
    """Returns the tensor that a tensor of the library stands for.

    Args:
        pb_tensor: a tensor of an op of the current Ir.
    """
    graph_id = pb_tensor.getGraph().id.str()
    return _graph(context.get_ir(), graph_id).get_tensor(pb_tensor.id)


@ir_method("op_settings")
def settings(name: str) -> Any:
    """Returns the settings of an op that is created now: its name, its IPU and its tiles.

    Args:
        name: the name of the op, which is put into the open name scopes.
    """
    module = binding.load()
    made = module.Settings(
        counterpart(context.get_current_graph()), "/".join([*scopes.current_scopes(), name])
    )
    ipu = scopes.current_ipu()
    if ipu is not None:
        made.vgraphId = module.OptionalVGraphId(ipu)
    if scopes.current_tile_set() == "io":
        made.tileSet = module.TileSet.IO
    part = scopes.current_execution_context().name
    made.executionContext = getattr(module.ExecutionContext, part)
    return made


def program_of(ir: Ir) -> CppIr:
    """Returns the program of the library that stands for an Ir.

    Args:
        ir: the Ir.
    """
    if ir not in _mirrors:
        known = weakref.ref(ir)

        def find(graph_id: str, tensor_id: str) -> None:
            _add_tensor(_alive(known), graph_id, tensor_id)

        def created(graph_id: str, handle: int) -> None:
            _add_op(_alive(known), graph_id, handle)

        def options() -> dict[str, int]:
            given = _alive(known).session_options
            return {name: int(given.value(name)) for name in OPTIONS}

        _mirrors[ir] = CppIr(ir.replication_factor, False, find, created, options)
    _mirrors[ir].set_replicas(ir.replication_factor)
    return _mirrors[ir]


def _alive(known: weakref.ref[Ir]) -> Ir:
    ir = known()
    if ir is None:
        raise popart_exception("The Ir of the graph is gone. Keep it as long as its graphs.")
    return ir


def _graph(ir: Ir, graph_id: str) -> Graph:
    return ir.graph_of_id(graph_id)


def _add_tensor(ir: Ir, graph_id: str, tensor_id: str) -> None:
    """Gives the library a tensor that it asks for, if there is one."""
    graph = _graph(ir, graph_id)
    if not graph.has_tensor(tensor_id):
        return
    tensor = graph.get_tensor(tensor_id)
    data = tensor.data if isinstance(tensor, Constant) else None
    name = tensor.dtype.name
    _mirrors[ir].add_tensor(tensor_id, _TYPES.get(name, name.upper()), tensor.shape, data, graph_id)


def _add_op(ir: Ir, graph_id: str, handle: int) -> None:
    """Adds an op that was made in the library to its graph."""
    made = CppOp(_mirrors[ir], handle)
    graph = _graph(ir, graph_id)
    op = graph.add_op(
        _kind(made),
        [graph.get_tensor(tensor.id) for tensor in made.inputs],
        {"cpp": made},
        [tensor.id for tensor in made.outputs],
        [_spec(tensor.type, tensor.shape) for tensor in made.outputs],
        are_ids=True,
    )
    positions = [tensor.index for tensor in made.inputs]
    op.modified.update(positions.index(index) for index in made.modified)


def _spec(type_: str, shape: tuple[int, ...]) -> TensorSpec:
    return TensorSpec(shape, dtypes.dtype.as_dtype(_DTYPES.get(type_, type_.lower())))


def _kind(op: CppOp) -> OpKind:
    """Returns the record of an op of a library."""
    key = (op.identifier, op.has_effect)
    if key not in _kinds:
        _kinds[key] = OpKind(
            op.type, _made, _compute, effect=op.has_effect, differentiate=_differentiate
        )
    return _kinds[key]


def _made(specs: Specs, cpp: CppOp) -> list[TensorSpec]:
    return [_spec(tensor.type, tensor.shape) for tensor in cpp.outputs]


def _compute(*tensors: Any, cpp: CppOp) -> list[Any]:
    return cpp.run(tensors)


def _differentiate(backward: Backward, op: Op) -> None:
    """Makes the gradient ops of an op of a library."""
    cpp: CppOp = op.attributes["cpp"]
    inputs = {tensor.index: t for tensor, t in zip(cpp.inputs, op.inputs)}
    outputs = {tensor.index: t for tensor, t in zip(cpp.outputs, op.outputs)}
    graph = backward.graph
    for plan in cpp.gradients():
        taken = {}
        for index, other, role in plan.inputs:
            tensor = (inputs if role == "In" else outputs).get(other)
            if tensor is None:
                continue
            value = (
                backward.gradient(tensor) if role == "GradOut" else backward.forward_value(tensor)
            )
            if value is not None:
                taken[index] = value.id
        made: dict[int, str] = {}
        for index, other in plan.outputs.items():
            made[index] = _unused(graph, f"{GRADIENT}{inputs[other].name}", made.values())
        plan.connect(taken, made, graph.id)
        for index, tensor_id in made.items():
            backward.add_gradient(inputs[plan.outputs[index]], graph.get_tensor(tensor_id))


def _unused(graph: Graph, name: str, others: Any) -> str:
    """Returns an id for a new tensor that no other tensor to make has, either."""
    found = graph.new_id(name)
    while found in others:
        found = graph.new_id(f"{name}_{len(others)}")
    return found
