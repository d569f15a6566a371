"""What all replicas compute alike."""

from __future__ import annotations

from collections import defaultdict

from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import op_def_registry

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir import collectives, resource_uses
from tensorflow_ipu.compiler.ir.node_order import topological
from tensorflow_ipu.compiler.ir.program import Program, input_node

# Positions of the arguments or results of a function (or node) that differ between replicas.
_Positions = frozenset[int]

#: A function and a node in it.
Place = tuple[str, str]


def differing(program: Program, replicas: int) -> frozenset[Place]:
    """Returns the nodes that may give other results on some replica, or not run on all.

    Replicas differ by their index, their random numbers and what their infeeds give. That is
    followed through values, functions, branches, loops and variables, which start alike.
    Collectives of all replicas, and the user's promise, make values equal again.

    Args:
        program: The Program.
        replicas: How many copies of it run.

    Returns:
        The nodes; none with one replica.
    """
    return _Flow(program, replicas).run() if replicas > 1 else frozenset()


class _Flow:
    """Follows differences until nothing new is found."""

    def __init__(self, program: Program, replicas: int) -> None:
        self._program = program
        self._replicas = replicas
        self._resources: dict[int, set[resource_uses.Resource]] = defaultdict(set)
        self._uses = resource_uses.find(program)  # keeps the nodes, which are told by identity
        for use in self._uses:
            if use.resource[0] != "feed":
                self._resources[id(use.node)].add(use.resource)
        self._variables: set[resource_uses.Resource] = set()
        self._nodes: set[Place] = set()
        self._known: dict[tuple[str, _Positions, bool], _Positions] = {}

    def run(self) -> frozenset[Place]:
        """Starts again as long as more variables turn out to differ."""
        before = -1
        while len(self._variables) > before:
            before = len(self._variables)
            self._known.clear()
            self._results(self._program.entry, frozenset(), False)
        return frozenset(self._nodes)

    def _results(self, name: str, arguments: _Positions, apart: bool) -> _Positions:
        """Returns which results of a function differ when some of its arguments do.

        Args:
            name: The function.
            arguments: Positions of the arguments that differ.
            apart: Whether replicas may run it a different number of times.
        """
        key = (name, arguments, apart)
        if key not in self._known:
            self._known[key] = frozenset()  # for a function that calls itself
            self._known[key] = self._walk(name, arguments, apart)
        return self._known[key]

    def _walk(self, name: str, arguments: _Positions, apart: bool) -> _Positions:
        function = self._program.functions[name]
        found: dict[str, _Positions | None] = {
            argument.name: None
            for index, argument in enumerate(function.signature.input_arg)
            if index in arguments
        }
        for node in topological(function.node_def):
            data = [reference for reference in node.input if not reference.startswith("^")]
            inputs = frozenset(i for i, value in enumerate(data) if _differs(value, found))
            positions = self._node(node, inputs, apart)
            self._follow_variables(node, inputs, apart)
            if apart or self._variables & self._resources[id(node)]:
                positions = None
            if positions is None or positions:
                found[node.name] = positions
                self._nodes.add((name, node.name))
        return frozenset(
            index
            for index, result in enumerate(function.signature.output_arg)
            if _differs(function.ret[result.name], found)
        )

    def _follow_variables(
        self, node: node_def_pb2.NodeDef, inputs: _Positions, apart: bool
    ) -> None:
        if node.op not in op_names.QUERIES and (inputs or apart):
            self._variables |= self._resources[id(node)]

    def _node(
        self, node: node_def_pb2.NodeDef, inputs: _Positions, apart: bool
    ) -> _Positions | None:
        """Returns which results of a node differ when some of its inputs do; None for all."""
        if node.op == op_names.EQUALITY_PROMISE or collectives.equalises(node, self._replicas):
            return frozenset()
        if op_names.is_conditional(node.op):
            parting = 0 in inputs
            arguments = frozenset(index - 1 for index in inputs if index > 0)
            return self._called(node, arguments, apart or parting, parting)
        if op_names.is_loop(node.op):
            return self._loop(node, inputs, apart)
        if collectives.functions_run_by(self._program, node):
            return self._called(node, inputs, apart, not op_names.is_call(node.op) and bool(inputs))
        return None if inputs or _is_source(node) else frozenset()

    def _called(
        self, node: node_def_pb2.NodeDef, arguments: _Positions, apart: bool, all_differ: bool
    ) -> _Positions | None:
        called = collectives.functions_run_by(self._program, node)
        results = [self._results(name, arguments, apart) for name in called]
        return None if all_differ else frozenset().union(*results)

    def _loop(
        self, node: node_def_pb2.NodeDef, inputs: _Positions, apart: bool
    ) -> _Positions | None:
        condition, body = node.attr["cond"].func.name, node.attr["body"].func.name
        variables = inputs
        while not self._results(body, variables, apart) <= variables:
            variables |= self._results(body, variables, apart)
        if self._results(condition, variables, apart):
            self._results(body, variables, True)
            return None
        return variables


def _is_source(node: node_def_pb2.NodeDef) -> bool:
    """Whether replicas differ in what a node gives even if its inputs are equal.

    Of our own ops, those with state ask for something of the replica: its index, seed or feed. So
    does a collective of some replicas only.
    """
    if not op_names.is_own(node.op) or node.op == op_names.PROGRAM_VARIABLE:
        return False
    definition = op_def_registry.get(node.op)
    return definition is None or definition.is_stateful


def _differs(reference: str, found: dict[str, _Positions | None]) -> bool:
    """Whether a tensor, named as in a function (`node:result:index`), differs."""
    node = input_node(reference)
    if node not in found:
        return False
    positions = found[node]
    return positions is None or int(reference.rpartition(":")[2]) in positions
