"""Refuses control flow that would take replicas different ways around a collective."""

from __future__ import annotations

from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import errors

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.checks import user_ops
from tensorflow_ipu.compiler.ir import collectives
from tensorflow_ipu.compiler.ir.node_order import topological
from tensorflow_ipu.compiler.ir.program import Program, input_node, node_tag

# Positions of the arguments or results of a function (or node) that differ between replicas.
_Positions = frozenset[int]


def check(program: Program, replicas: int) -> None:
    """Checks that no predicate around a collective depends on the replica index.

    It is followed through the values of a program, into functions, branches and loops, but not
    through variables. What `assume_equal_across_replicas` and collectives of all replicas give is
    equal. If replicas part ways for other reasons, the engine notices when it happens.

    Raises:
        tf.errors.InvalidArgumentError: Naming the conditional or loop.
    """
    if replicas > 1:
        _Flow(program, replicas).results(program.entry, frozenset())


class _Flow:
    """Follows what differs between replicas through the functions of a Program."""

    def __init__(self, program: Program, replicas: int) -> None:
        self._program = program
        self._replicas = replicas
        self._with_collectives = collectives.functions_with_collectives(program)
        self._known: dict[tuple[str, _Positions], _Positions] = {}

    def results(self, name: str, arguments: _Positions) -> _Positions:
        """Returns which results of a function differ when some of its arguments do."""
        key = (name, arguments)
        if key not in self._known:
            self._known[key] = frozenset()  # for a function that calls itself
            self._known[key] = self._results(name, arguments)
        return self._known[key]

    def _results(self, name: str, arguments: _Positions) -> _Positions:
        function = self._program.functions[name]
        signature = function.signature
        # Node or argument -> positions of its results that differ; None for all.
        differing: dict[str, _Positions | None] = {
            argument.name: None
            for index, argument in enumerate(signature.input_arg)
            if index in arguments
        }
        for node in topological(function.node_def):
            positions = self._node(node, _differing_inputs(node, differing))
            if positions is None or positions:
                differing[node.name] = positions
        return frozenset(
            index
            for index, result in enumerate(signature.output_arg)
            if _differs(function.ret[result.name], differing)
        )

    def _node(self, node: node_def_pb2.NodeDef, inputs: _Positions) -> _Positions | None:
        """Returns which results of a node differ when some of its inputs do; None for all."""
        if node.op == op_names.REPLICA_INDEX:
            return None
        if node.op == op_names.EQUALITY_PROMISE or collectives.equalises(node, self._replicas):
            return frozenset()
        identical = user_ops.identical_outputs(node)
        if identical and inputs:
            outputs = range(len(node.attr["output_types"].list.type))
            return frozenset(outputs) - identical
        if op_names.is_conditional(node.op):
            return self._conditional(node, inputs)
        if op_names.is_loop(node.op):
            return self._loop(node, inputs)
        if op_names.is_call(node.op):
            return self.results(node.attr["f"].func.name, inputs)
        called = collectives.functions_run_by(self._program, node)
        inside = [self.results(name, inputs) for name in called]
        return None if inputs or any(inside) else frozenset()

    def _conditional(self, node: node_def_pb2.NodeDef, inputs: _Positions) -> _Positions | None:
        branches = collectives.functions_run_by(self._program, node)
        differs = 0 in inputs
        if differs and self._with_collectives.intersection(branches):
            raise self._diverges(node, branches)
        arguments = frozenset(index - 1 for index in inputs if index > 0)
        results = [self.results(branch, arguments) for branch in branches]
        return None if differs else frozenset().union(*results)

    def _loop(self, node: node_def_pb2.NodeDef, inputs: _Positions) -> _Positions | None:
        condition, body = node.attr["cond"].func.name, node.attr["body"].func.name
        variables = inputs
        while not self.results(body, variables) <= variables:
            variables |= self.results(body, variables)
        differs = bool(self.results(condition, variables))
        if differs and self._with_collectives.intersection((condition, body)):
            raise self._diverges(node, [condition, body])
        return None if differs else variables

    def _diverges(
        self, node: node_def_pb2.NodeDef, functions: list[str]
    ) -> errors.InvalidArgumentError:
        what = "loop" if op_names.is_loop(node.op) else "conditional"
        return errors.InvalidArgumentError(
            None,
            None,
            f"The predicate of the {what} {node_tag(node.name)} is not replica uniform: it depends "
            f"on the replica index, but the collective {self._collective_in(functions)} inside "
            f"needs all {self._replicas} replicas. Move the collective out of the {what}, compute "
            "the predicate from values that are equal on all replicas (such as the results of "
            "cross_replica_sum), or promise that it is equal with "
            "cross_replica_ops.assume_equal_across_replicas.",
        )

    def _collective_in(self, functions: list[str]) -> str:
        """Returns the name of the first collective in functions or what they run."""
        for name in functions:
            for node in self._program.functions[name].node_def:
                if collectives.is_collective(node):
                    return node_tag(node.name, name)
                called = self._with_collectives.intersection(
                    collectives.functions_run_by(self._program, node)
                )
                if called:
                    return self._collective_in(sorted(called))
        return ""


def _differing_inputs(
    node: node_def_pb2.NodeDef, differing: dict[str, _Positions | None]
) -> _Positions:
    data = (reference for reference in node.input if not reference.startswith("^"))
    return frozenset(index for index, name in enumerate(data) if _differs(name, differing))


def _differs(reference: str, differing: dict[str, _Positions | None]) -> bool:
    """Whether a tensor, named as in a function (`node:result:index`), differs."""
    node = input_node(reference)
    if node not in differing:
        return False
    positions = differing[node]
    return positions is None or int(reference.rpartition(":")[2]) in positions
