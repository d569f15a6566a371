"""Passes that fix the order of ops: iterations, collectives and effects."""

from __future__ import annotations

from tensorflow.core.framework import function_pb2, node_def_pb2, types_pb2

from tensorflow_ipu.compiler.ir import effects
from tensorflow_ipu.compiler.ir.function_nodes import topological
from tensorflow_ipu.compiler.ir.program import (
    COMPOSITE_ATTRIBUTE,
    Program,
    functions_run_by,
    input_node,
)
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.util import op_names


def run_iterations_in_turn(program: Program, target: Target) -> None:
    """Sets every loop to one iteration at a time.

    A device program is sequential: iteration i + 1 reads its infeeds, writes its outfeeds and
    updates variables after iteration i. TensorFlow would let iterations overlap.

    Before: any legal Program. After: `parallel_iterations` of every loop is 1.
    """
    del target
    for _, node in program.nodes():
        if op_names.is_loop(node.op):
            node.attr["parallel_iterations"].i = 1


def order_collectives(program: Program, target: Target) -> None:
    """Chains the collectives of each function into one sequence for all replicas.

    Lookups in tables on the host are links too, so that they come before or after an update of the
    table as in the program; with one replica, lookups and updates are the only links. So are
    operations of users' libraries, whose programs may have an exchange between replicas: that is
    known when they are built.

    The links of the chain are collectives, and nodes that run functions with collectives: those
    have chains of their own, and end when these end. The order is a topological one, ties are
    settled by the order of the program. Control edges that it has anyway are not added.

    A function with links is a link for its caller because it ends after all of them: the pass
    `keep_effects` sees to that.

    Before: any legal Program; loops run one iteration at a time. After: in each function there is
    a path through all links. With one replica only programs with such tables change.
    """

    def is_link(node: node_def_pb2.NodeDef) -> bool:
        if effects.uses_table(node):
            return True
        if target.replicas == 1:
            return False
        return effects.is_collective(node) or node.op == op_names.USER_OP

    running = effects.functions_with_collectives(program, is_link)
    for name in sorted(running):
        function = program.functions[name]
        links = [
            node
            for node in topological(function.node_def)
            if is_link(node) or running.intersection(functions_run_by(program, node))
        ]
        for before, after in zip(links, links[1:]):
            _run_after(after, before.name)


def _run_after(node: node_def_pb2.NodeDef, name: str) -> None:
    """Makes a node wait for another, unless it takes one of its results."""
    if all(input_node(reference) != name for reference in node.input):
        node.input.append(f"^{name}")


_START = "ipu_at_start"
# Of TensorFlow, on a call: it becomes its ops at once, and no optimizer drops edges that it needs.
# A call that stays keeps its operands until its collective ends.
_INLINED = "_lower_as_multi_device_function"
_NOT_WAITING = (types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT)


def keep_effects(program: Program, target: Target) -> None:
    """Makes effects wait for all arguments of their function, and its results for the effects.

    TensorFlow inlines the call of a function if the function's control results cover all effects
    and something waits for the end of the call. If not, it drops results that the caller does not
    use, and the effects that only they wait for; and each replica optimizes the function in its own
    way. After this pass all calls can be inlined.

    After inlining, each op waits for its own operands only. Effects have to stay after all ops
    before the call and before all ops after it. So effects wait for all arguments, and data results
    wait for the effects. Results of the entry need not, nor results of a loop's body: one iteration
    runs at a time.

    Before: any legal Program without ops that nothing needs, whose loops run one iteration at a
    time. After: in each function there is a path from every op with an effect to a control result,
    and an op that runs functions with effects is stateful (`compiler.checks.verify.check_effects`).
    Functions with loops of TensorFlow 1 stay as they are.
    """
    del target
    running = effects.functions(program)
    bodies = {n.attr["body"].func.name for _, n in program.nodes() if op_names.is_loop(n.op)}
    for name in sorted(running):
        function = program.functions[name]
        if effects.has_frames(function):
            continue
        function.signature.is_stateful = True
        _end_after_effects(program, function, running)
        if name == program.entry:
            continue
        _begin_after_arguments(program, function, running)
        if name not in bodies:
            _return_after_end(function)


def _end_after_effects(
    program: Program, function: function_pb2.FunctionDef, running: set[str]
) -> None:
    """Adds the last effects of a function to its control results, and calls with effects."""
    waited = {name[1:] for node in function.node_def for name in node.input if name[0] == "^"}
    waited.update(function.control_ret.values())
    kept = effects.waited_for(function, function.control_ret.values())
    for node in reversed(topological(function.node_def)):
        if not effects.of_node(program, node, running):
            continue
        node.op = op_names.STATEFUL.get(node.op, node.op)
        if COMPOSITE_ATTRIBUTE in node.attr:
            node.attr[_INLINED].b = True
        if node.name not in kept or (op_names.is_call(node.op) and node.name not in waited):
            function.control_ret[node.name] = node.name
            function.signature.control_output.append(node.name)
            kept |= effects.waited_for(function, [node.name])


def _begin_after_arguments(
    program: Program, function: function_pb2.FunctionDef, running: set[str]
) -> None:
    """Makes the first effects of a function wait for all of its arguments."""
    arguments = [f"^{argument.name}" for argument in function.signature.input_arg]
    if not arguments:
        return
    begun: set[str] = set()
    for node in topological(function.node_def):
        if any(input_node(reference) in begun for reference in node.input):
            begun.add(node.name)
        elif effects.of_node(program, node, running):
            begun.add(node.name)
            node.input.append(f"^{_START}")
    function.node_def.add(name=_START, op="NoOp", input=arguments)


def _return_after_end(function: function_pb2.FunctionDef) -> None:
    """Adds control edges from a function's control results to its data results."""
    ends = sorted(set(function.control_ret.values()))
    for result in function.signature.output_arg:
        reference = function.ret[result.name]
        before = effects.waited_for(function, [input_node(reference)])
        missing = [f"^{name}" for name in ends if name not in before]
        if missing and result.type not in _NOT_WAITING:
            waiting = function.node_def.add(
                name=f"{result.name}/ipu_at_end", op="Identity", input=[reference, *missing]
            )
            waiting.attr["T"].type = result.type
            function.ret[result.name] = f"{waiting.name}:output:0"
