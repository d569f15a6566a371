"""The functions of a Program in the form that a `Dataflow` walks."""

from __future__ import annotations

import dataclasses

from tensorflow.core.framework import function_pb2, node_def_pb2

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir.collectives import functions_run_by
from tensorflow_ipu.compiler.ir.node_order import topological
from tensorflow_ipu.compiler.ir.node_results import result_names
from tensorflow_ipu.compiler.ir.program import Program


@dataclasses.dataclass(eq=False)
class ProgramOp:
    """A node of a function.

    Attributes:
        node: The node itself.
        type: The type of its op.
        function: Name of the function it is in.
        inputs: Names of its data inputs, without control inputs.
        outputs: Names of its results.
        calls: The functions it runs; of a loop, the condition and the body.
    """

    node: node_def_pb2.NodeDef
    type: str
    function: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[ProgramFunction, ...]


@dataclasses.dataclass(eq=False)
class ProgramFunction:
    """A function of a Program; there is one object for each, wherever it is called.

    Attributes:
        name: Its name.
        arguments: Names of its arguments.
        results: Names of the tensors it returns.
        ops: Its nodes in topological order.
    """

    name: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    ops: tuple[ProgramOp, ...] = dataclasses.field(default=(), repr=False)


def entry(program: Program) -> ProgramFunction:
    """Returns the function that a Program runs, which leads to all others that it reaches.

    Args:
        program: the Program. Later changes of it are not seen.
    """
    return _Functions(program).function(program.entry)


class _Functions:
    """Cache of a program's functions, which may call themselves."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._made: dict[str, ProgramFunction] = {}

    def function(self, name: str) -> ProgramFunction:
        if name not in self._made:
            definition = self._program.functions[name]
            signature = definition.signature
            arguments = tuple(argument.name for argument in signature.input_arg)
            returned = [definition.ret[result.name] for result in signature.output_arg]
            results = _tensors(returned, frozenset(arguments))
            self._made[name] = function = ProgramFunction(name, arguments, results)
            function.ops = self._ops(definition, frozenset(arguments))
        return self._made[name]

    def _ops(
        self, definition: function_pb2.FunctionDef, arguments: frozenset[str]
    ) -> tuple[ProgramOp, ...]:
        name = definition.signature.name
        return tuple(
            ProgramOp(
                node,
                node.op,
                name,
                _tensors([value for value in node.input if not value.startswith("^")], arguments),
                self._outputs(node),
                tuple(self.function(called) for called in self._called(node)),
            )
            for node in topological(definition.node_def)
        )

    def _called(self, node: node_def_pb2.NodeDef) -> list[str]:
        if op_names.is_loop(node.op):
            return [node.attr["cond"].func.name, node.attr["body"].func.name]
        return functions_run_by(self._program, node)

    def _outputs(self, node: node_def_pb2.NodeDef) -> tuple[str, ...]:
        if node.op in self._program.functions:  # a function is called by its name
            results = self._program.functions[node.op].signature.output_arg
            return tuple(f"{node.name}:{result.name}:0" for result in results)
        return result_names(node)


def _tensors(references: list[str], arguments: frozenset[str]) -> tuple[str, ...]:
    """Returns the names of tensors; all references to an argument become one name."""
    makers = [(reference.partition(":")[0], reference) for reference in references]
    return tuple([maker if maker in arguments else reference for maker, reference in makers])
