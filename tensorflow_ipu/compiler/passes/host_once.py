"""Pass: runs computations outside compilation once for all replicas."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence

import numpy as np
from tensorflow.core.framework import function_pb2, node_def_pb2, types_pb2
from tensorflow.python.framework import dtypes, errors, tensor_util

from tensorflow_ipu.compiler.ir.function_nodes import position_of, topological, type_of
from tensorflow_ipu.compiler.ir.program import (
    OUTSIDE_ATTRIBUTE,
    Program,
    host_functions,
    input_node,
    node_tag,
)
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.util import op_names

_SHAPES = "_output_shapes"
_LOWER = "_lower_using_switch_merge"
_UNSHARED = (types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT)


def extract(program: Program, function: str, nodes: Sequence[str], name: str) -> None:
    """Moves some nodes of a function into the branch of a conditional.

    Results that other ops use come out of the conditional: for ops outside compilation as they
    are, for the device through a broadcast to all replicas.

    Args:
        program: the Program, which is changed.
        function: name of the function.
        nodes: names of nodes outside compilation. No path leaves them and comes back.
        name: prefix for the names of the two new functions.

    Raises:
        tf.errors.UnimplementedError: If one of the results cannot be given to other replicas.
    """
    _Extraction(program, function, nodes, name).run()


class _Extraction:
    """Extraction of some nodes of a function into the branch of a conditional."""

    def __init__(self, program: Program, name: str, nodes: Sequence[str], new: str) -> None:
        self._program = program
        self._function = program.functions[name]
        self._new = new
        self._names = set(nodes)
        moved = [node for node in self._function.node_def if node.name in self._names]
        self._nodes = list(function_pb2.FunctionDef(node_def=moved).node_def)
        self._prefix = f"{nodes[0]}/on_host"
        self._scope = moved[0].attr[OUTSIDE_ATTRIBUTE].s
        self._results = self._find_results()
        self._shapes = {reference: self._shape(reference) for reference in self._results}

    def run(self) -> None:
        """Performs the extraction."""
        taken = _unique(
            reference
            for node in self._nodes
            for reference in node.input
            if input_node(reference) not in self._names
        )
        inputs = [reference for reference in taken if not reference.startswith("^")]
        waits = [reference for reference in taken if reference.startswith("^")]
        types = [self._type_of_input(reference) for reference in inputs]
        self._add_branch(f"{self._new}_run", inputs, types)
        self._add_other_branch(f"{self._new}_skip", types)
        self._remove_nodes()
        self._use_results()
        self._add_conditional(inputs, types, waits)

    def _find_results(self) -> list[str]:
        """Returns the tensors of the group that are used outside it."""
        users = [node for node in self._function.node_def if node.name not in self._names]
        used = [reference for node in users for reference in node.input]
        used.extend(self._function.ret.values())
        results = _unique(
            reference
            for reference in used
            if not reference.startswith("^") and input_node(reference) in self._names
        )
        for reference in results:
            if type_of(self._node(reference), reference) in _UNSHARED:
                raise errors.UnimplementedError(
                    None,
                    None,
                    f"{node_tag(input_node(reference), self._function.signature.name)} is a "
                    "resource made outside compilation, which several replicas cannot share. Make "
                    "it outside the IPU program.",
                )
        return results

    def _node(self, reference: str) -> node_def_pb2.NodeDef:
        return next(node for node in self._nodes if node.name == input_node(reference))

    def _shape(self, reference: str) -> tuple[int, ...] | None:
        """Returns the shape of a result if the scope has noted it."""
        node = self._node(reference)
        shapes = node.attr[_SHAPES].list.shape if _SHAPES in node.attr else []
        position = position_of(node, reference)
        if position >= len(shapes) or shapes[position].unknown_rank:
            return None
        sizes = tuple(dimension.size for dimension in shapes[position].dim)
        return None if -1 in sizes else sizes

    def _type_of_input(self, reference: str) -> int:
        name = input_node(reference)
        for argument in self._function.signature.input_arg:
            if argument.name == name:
                return argument.type
        node = next(node for node in self._function.node_def if node.name == name)
        return type_of(node, reference)

    def _add_branch(self, name: str, inputs: list[str], types: list[int]) -> None:
        """Adds the function with the nodes; nodes without successors become control outputs."""
        branch = self._new_function(name, types)
        arguments = {
            reference: branch.signature.input_arg[index].name
            for index, reference in enumerate(inputs)
        }
        waited_for = {input_node(reference) for node in self._nodes for reference in node.input}
        for node in self._nodes:
            kept = [
                arguments.get(reference, reference)
                for reference in node.input
                if reference in arguments or input_node(reference) in self._names
            ]
            copy = branch.node_def.add()
            copy.CopyFrom(node)
            del copy.input[:]
            copy.input.extend(kept)
            if node.name not in waited_for:
                branch.control_ret[node.name] = node.name
                branch.signature.control_output.append(node.name)
        for index, reference in enumerate(self._results):
            branch.ret[f"result_{index}"] = reference

    def _add_other_branch(self, name: str, types: list[int]) -> None:
        """Adds the branch of the other replicas. It returns zeros, which nothing reads."""
        branch = self._new_function(name, types)
        for index, reference in enumerate(self._results):
            dtype = dtypes.as_dtype(branch.signature.output_arg[index].type)
            value = b"" if dtype == dtypes.string else 0
            zeros = np.full(self._shapes[reference] or (), value, dtype.as_numpy_dtype)
            node = branch.node_def.add(name=f"zeros_{index}", op="Const")
            node.attr[OUTSIDE_ATTRIBUTE].s = self._scope
            node.attr["dtype"].type = dtype.as_datatype_enum
            node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(zeros, dtype))
            branch.ret[f"result_{index}"] = f"zeros_{index}:output:0"

    def _new_function(self, name: str, types: list[int]) -> function_pb2.FunctionDef:
        """Adds a function without nodes to the Program, with the signature of both branches."""
        function = self._program.functions[name] = function_pb2.FunctionDef()
        function.signature.name = name
        for index, kind in enumerate(types):
            function.signature.input_arg.add(name=f"argument_{index}", type=kind)
        for index, reference in enumerate(self._results):
            kind = type_of(self._node(reference), reference)
            function.signature.output_arg.add(name=f"result_{index}", type=kind)
        function.signature.is_stateful = True
        return function

    def _remove_nodes(self) -> None:
        kept = [node for node in self._function.node_def if node.name not in self._names]
        del self._function.node_def[:]
        self._function.node_def.extend(kept)

    def _use_results(self) -> None:
        """Passes the results to users: to ops of the device as broadcasts, to all replicas."""
        broadcast = {}
        for index, reference in enumerate(self._results):
            broadcast[reference] = f"{self._prefix}/broadcast_{index}:output:0"
        direct = {
            reference: f"{self._prefix}:output:{index}"
            for index, reference in enumerate(self._results)
        }
        for node in self._function.node_def:
            renamed = direct if OUTSIDE_ATTRIBUTE in node.attr else broadcast
            references = self._renamed(node, renamed)
            if references != list(node.input):
                del node.input[:]
                node.input.extend(references)
        for key, reference in list(self._function.ret.items()):
            self._function.ret[key] = broadcast.get(reference, reference)
        self._wait_for_conditional()

    def _renamed(self, node: node_def_pb2.NodeDef, renamed: dict[str, str]) -> list[str]:
        """Returns a node's inputs with new names. A control input counts once."""
        data = [renamed.get(name, name) for name in node.input if not name.startswith("^")]
        waits = [
            f"^{self._prefix}" if input_node(name) in self._names else name
            for name in node.input
            if name.startswith("^")
        ]
        return [*data, *_unique(waits)]

    def _wait_for_conditional(self) -> None:
        """Makes the conditional a control result, instead of nodes inside it."""
        function = self._function
        gone = [key for key, name in function.control_ret.items() if name in self._names]
        for key in gone:
            del function.control_ret[key]
            function.signature.control_output.remove(key)
        function.control_ret[self._prefix] = self._prefix
        function.signature.control_output.append(self._prefix)

    def _add_conditional(self, inputs: list[str], types: list[int], waits: list[str]) -> None:
        predicate = self._add_predicate()
        node = self._function.node_def.add(name=self._prefix, op="If")
        node.input.extend([predicate, *inputs, *waits])
        node.attr["Tcond"].type = types_pb2.DT_BOOL
        node.attr["Tin"].list.type.extend(types)
        node.attr["then_branch"].func.name = f"{self._new}_run"
        node.attr["else_branch"].func.name = f"{self._new}_skip"
        node.attr[_LOWER].b = True
        node.attr[OUTSIDE_ATTRIBUTE].s = self._scope  # with types of the host
        node.attr["Tout"].list.SetInParent()
        node.attr["output_shapes"].list.SetInParent()
        for index, reference in enumerate(self._results):
            kind = type_of(self._node(reference), reference)
            node.attr["Tout"].list.type.append(kind)
            self._add_shape(node, self._shapes[reference])
            self._add_broadcast(index, kind)

    def _add_predicate(self) -> str:
        """Adds the predicate that is true on replica 0; returns its name."""
        function, prefix = self._function, self._prefix
        function.node_def.add(name=f"{prefix}/index", op=op_names.REPLICA_INDEX)
        zero = function.node_def.add(name=f"{prefix}/zero", op="Const")
        zero.attr["dtype"].type = types_pb2.DT_INT32
        zero.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(np.int32(0)))
        first = function.node_def.add(name=f"{prefix}/is_first", op="Equal")
        first.input.extend([f"{prefix}/index:index:0", f"{prefix}/zero:output:0"])
        first.attr["T"].type = types_pb2.DT_INT32
        return f"{first.name}:z:0"

    @staticmethod
    def _add_shape(node: node_def_pb2.NodeDef, sizes: tuple[int, ...] | None) -> None:
        shape = node.attr["output_shapes"].list.shape.add(unknown_rank=sizes is None)
        for size in sizes or ():
            shape.dim.add(size=size)

    def _add_broadcast(self, index: int, kind: int) -> None:
        """Adds a broadcast, unless only the host uses the result."""
        name = f"{self._prefix}/broadcast_{index}"
        references = [r for node in self._function.node_def for r in node.input]
        references.extend(self._function.ret.values())
        if f"{name}:output:0" in references:
            node = self._function.node_def.add(name=name, op=op_names.REPLICA_BROADCAST)
            node.input.append(f"{self._prefix}:output:{index}")
            node.attr["T"].type = kind


def _unique(references: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(references))


# --- The pass ---


def run(program: Program, target: Target) -> None:
    """Makes replica 0 run the ops outside compilation, and gives the results to all replicas.

    The ops of a scope become the branch of a conditional that only replica 0 takes, so their inputs
    are replica 0's. Tensors that leave the scope are broadcast. Where ops of the device lie between
    ops of one scope, each side becomes a conditional of its own.

    Before: any legal Program. After: with several replicas, ops outside compilation are in
    functions that only replica 0 runs. With one replica nothing changes.
    """
    if target.replicas == 1:
        return
    inside = host_functions(program)
    for name in [name for name in program.functions if name not in inside]:
        for number, group in enumerate(_groups(program.functions[name])):
            extract(program, name, group, f"{name}_host_{number}")


def _groups(function: function_pb2.FunctionDef) -> list[list[str]]:
    """Groups ops outside compilation: each group runs as one conditional.

    A group is the ops of one scope at one distance from the inputs, counted in changes of scope. No
    path can leave a group and come back.
    """
    groups: dict[tuple[int, bytes], list[str]] = collections.defaultdict(list)
    place: dict[str, tuple[int, bytes]] = {}
    for node in topological(function.node_def):
        scope = node.attr[OUTSIDE_ATTRIBUTE].s if OUTSIDE_ATTRIBUTE in node.attr else b""
        sources = (place.get(input_node(reference), (0, b"")) for reference in node.input)
        changes = max((level + (other != scope) for level, other in sources), default=0)
        place[node.name] = (changes, scope)
        if scope:
            groups[changes, scope].append(node.name)
    return [groups[key] for key in sorted(groups)]
