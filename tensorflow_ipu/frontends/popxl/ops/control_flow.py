"""Conditionals and loops, whose bodies are graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popxl import building, context, dtypes
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.ir import Graph
from tensorflow_ipu.frontends.popxl.ops import calls
from tensorflow_ipu.frontends.popxl.ops.calls import CallSiteInfo
from tensorflow_ipu.frontends.popxl.ops.movement import init
from tensorflow_ipu.frontends.popxl.tensor import Tensor, TensorLike, graph_input

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.ir import Op
    from tensorflow_ipu.frontends.popxl.lowering.graphs import GraphLowering
    from tensorflow_ipu.frontends.popxl.transforms.differentiation import Backward, GradGraphInfo


# The graph that a loop runs has two inputs, and one output, that the loop does not take or return:
# iterator and condition, and the condition.
_LOOP_INPUTS, _LOOP_OUTPUTS = 2, 1


class ConditionalSiteInfo(CallSiteInfo):
    """Operands, results and branches of one conditional op.

    The inputs of the op are the condition, then those of the one graph, then those of the other.
    """

    @property
    def called_graph(self) -> Any:
        """The two branches: the graph for a true condition, then the graph for a false one."""
        return self.op.called

    def _first(self, then_branch: bool) -> int:
        """The position of the first input of a graph."""
        return 1 if then_branch else 1 + len(self.op.called[0].inputs)

    def _branch(self, then_branch: bool) -> Graph:
        return self.op.called[0 if then_branch else 1]

    def is_parent_index_in_then_branch(self, idx: int) -> bool:
        """Returns whether an input of the op is one of the graph for a condition that holds.

        Args:
            idx: its position.

        Raises:
            IndexError: If it is the condition, or there is no such input.
        """
        if not 1 <= idx < len(self.inputs):
            raise IndexError(f"{idx} is not the position of an input of one of the graphs.")
        return idx < self._first(False)

    def graph_to_parent_input_index(self, idx: int, then_branch: bool = True) -> int:
        """Returns the position among the inputs of the op for one of a graph.

        Args:
            idx: the position.
            then_branch: whether the graph is the one for a condition that holds.

        Raises:
            IndexError: If there is none.
        """
        if not 0 <= idx < len(self._branch(then_branch).inputs):
            raise IndexError(f"There is no input {idx} of the graph.")
        return self._first(then_branch) + idx

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Returns the position among the inputs of its graph for one of the op.

        Args:
            idx: the position.

        Raises:
            IndexError: If it is the condition, or there is none.
        """
        return idx - self._first(self.is_parent_index_in_then_branch(idx))

    def graph_to_parent_output_index(self, idx: int, then_branch: bool = True) -> int:
        """Returns the position among the outputs of the op for one of a graph.

        Args:
            idx: the position.
            then_branch: whether the graph is the one for a condition that holds.

        Raises:
            IndexError: If there is none.
        """
        if not 0 <= idx < len(self.outputs):
            raise IndexError(f"There is no output {idx}.")
        return idx

    def parent_to_graph_output_index(self, idx: int, then_branch: bool = True) -> int:
        """Returns the position among the outputs of a graph for one of the op.

        Args:
            idx: the position.
            then_branch: whether the graph is the one for a condition that holds.

        Raises:
            IndexError: If there is none.
        """
        return self.graph_to_parent_output_index(idx, then_branch)

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """Returns the tensor outside that belongs to an input or output of one of the graphs.

        Args:
            graph_tensor: the input or output.

        Raises:
            ValueError: If it is neither.
        """
        for then_branch in (True, False):
            graph = self._branch(then_branch)
            if graph_tensor in graph.inputs:
                return self.inputs[self._first(then_branch) + graph.inputs.index(graph_tensor)]
            if graph_tensor in graph.outputs:
                return self.outputs[graph.outputs.index(graph_tensor)]
        raise ValueError(f"{graph_tensor!r} is not an input or output of the called graphs.")

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """Returns the first input of a graph that a tensor is passed in for.

        Args:
            parent_tensor: the tensor.

        Raises:
            ValueError: If it is not passed in.
        """
        if parent_tensor not in self.inputs[1:]:
            raise ValueError(f"{parent_tensor!r} is not a parent graph input of {self!r}.")
        position = 1 + self.inputs[1:].index(parent_tensor)
        graph = self._branch(self.is_parent_index_in_then_branch(position))
        return graph.inputs[self.parent_to_graph_input_index(position)]

    def set_parent_input_modified(
        self, parent_tensor: Tensor, infer_modified_regions: bool = False
    ) -> None:
        """Raises an error: the branches of a conditional do not modify its operands.

        Args:
            parent_tensor: a tensor that is passed in.
            infer_modified_regions: whether to find out which part of it.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("A conditional op does not modify the tensors passed in.")


def _lower_conditional(lowering: GraphLowering, op: Op) -> None:
    """Calls the function of the graph that is chosen."""
    then_branch, else_branch = (lowering.program.function(graph) for graph in op.called)
    condition, *inputs = lowering.read_inputs(op)
    split = len(then_branch.graph.inputs)

    def run(branch: Any, passed: list[Any]) -> Any:
        def call() -> list[Any]:
            outputs, _, last = branch.call(passed)
            with tf.control_dependencies([last]):
                return [tf.identity(value) for value in outputs] or [tf.constant(0)]

        return call

    with lowering.effects_of(then_branch.has_effects or else_branch.has_effects) as done:
        results = tf.cond(
            tf.reshape(condition, []),
            run(then_branch, inputs[:split]),
            run(else_branch, inputs[split:]),
        )
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        done.append(results[0].op)
    lowering.define_outputs(op, results if op.outputs else [])


def _conditional_spec(specs: shapes.Specs, then_branch: Graph, **_: Any) -> list[TensorSpec]:
    return [tensor.spec for tensor in then_branch.outputs]


def _differentiate(backward: Backward, op: Op) -> None:
    """Chooses between the gradient graphs of the two graphs.

    The gradient graphs differ in inputs and outputs. Each is called by a graph that has gradients
    for the inputs of both: zeros for those of the graph that was not chosen.
    """
    infos = [backward.differentiate(graph) for graph in op.called]
    passed = [_passed(backward, op, side, info) for side, info in enumerate(infos)]
    branches = []
    for side, info in enumerate(infos):
        branch = op.graph.ir.new_graph(f"{info.graph.id}_branch")
        with branch:
            inputs = [
                graph_input(**t.spec, name=own.name)
                for t, own in zip(passed[side], info.graph.inputs)
            ]
            results = calls.call(info.graph, *inputs)
            for other, known in enumerate(infos):
                for position, connection in enumerate(known.expected_outputs):
                    tensor = connection.fwd_tensor
                    zeros = other != side
                    branch.add_output(init(**tensor.spec) if zeros else results[position])
        branches.append(branch)
    condition = backward.forward_value(op.inputs[0])
    outputs = iter(conditional(condition, branches[0], branches[1], passed[0], passed[1]))
    for side, info in enumerate(infos):
        for connection in info.expected_outputs:
            parent = op.inputs[_position(op, side, connection.fwd_tensor)]
            backward.add_gradient(parent, next(outputs))


def _position(op: Op, side: int, tensor: Tensor) -> int:
    """Returns the position among the inputs of a choice for an input of one of its graphs."""
    first = 1 if side == 0 else 1 + len(op.called[0].inputs)
    return first + op.called[side].inputs.index(tensor)


def _passed(backward: Backward, op: Op, side: int, info: GradGraphInfo) -> list[Tensor]:
    """Returns the operands of the gradient graph of one branch."""
    called, passed = op.called[side], []
    for connection in info.expected_inputs:
        tensor = connection.fwd_tensor
        if connection.connection_type.value == "FwdGrad":
            parent = op.outputs[called.outputs.index(tensor)]
            gradient = backward.gradient(parent)
            passed.append(init(**parent.spec) if gradient is None else gradient)
        elif tensor in called.inputs:
            passed.append(backward.forward_value(op.inputs[_position(op, side, tensor)]))
        else:
            raise popart_exception(
                f"The gradient graph of {called!r} takes {tensor!r}, which {op!r} ({op.site}) does "
                "not return. Differentiate the graph after making the conditional."
            )
    return passed


_IF = register(
    OpKind("If", _conditional_spec, lower=_lower_conditional, differentiate=_differentiate)
)


def conditional(
    cond: Tensor,
    then_branch: Graph,
    else_branch: Graph,
    then_inputs: Iterable[TensorLike] | None = None,
    else_inputs: Iterable[TensorLike] | None = None,
    then_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    else_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
) -> tuple[Tensor, ...]:
    """Calls one of two graphs, on each replica by its own condition.

    Args:
        cond: one boolean.
        then_branch: the graph to call if it is true.
        else_branch: the graph to call otherwise, with equal outputs.
        then_inputs: the arguments of `then_branch`, in order.
        else_inputs: the arguments of `else_branch`, in order.
        then_inputs_dict: the same by input of the graph.
        else_inputs_dict: the same by input of the graph.

    Returns:
        The outputs.

    Raises:
        ValueError: If outputs of the graphs differ in number, or as `call` does.
        NotImplementedError: If a graph takes inputs by reference.
        popart.popart_exception: If outputs differ in shape or type, or `cond` is no boolean.
    """
    return conditional_with_info(
        cond,
        then_branch,
        else_branch,
        then_inputs,
        else_inputs,
        then_inputs_dict,
        else_inputs_dict,
    ).outputs


def conditional_with_info(
    cond: Tensor,
    then_branch: Graph,
    else_branch: Graph,
    then_inputs: Iterable[TensorLike] | None = None,
    else_inputs: Iterable[TensorLike] | None = None,
    then_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    else_inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    check_inputs: bool = True,
) -> ConditionalSiteInfo:
    """Calls one of two graphs, as `conditional` does.

    Args:
        cond: one boolean.
        then_branch: the graph to call if it is true.
        else_branch: the graph to call otherwise, with equal outputs.
        then_inputs: the arguments of `then_branch`, in order.
        else_inputs: the arguments of `else_branch`, in order.
        then_inputs_dict: the same by input of the graph.
        else_inputs_dict: the same by input of the graph.
        check_inputs: whether inputs without a value are refused; else they are zero.

    Returns:
        What is known of the choice; its `outputs` are those of the graph.

    Raises:
        Exception: As `conditional` does.
    """
    building.check_in_graph(context.get_current_graph(), [cond])
    _check_branches(cond, then_branch, else_branch)
    passed = [
        cond,
        *calls.bind(
            then_branch,
            list(then_inputs or []),
            then_inputs_dict or {},
            check_inputs,
            " for the then_branch",
        ),
        *calls.bind(
            else_branch,
            list(else_inputs or []),
            else_inputs_dict or {},
            check_inputs,
            " for the else_branch",
        ),
    ]
    branches = {"then_branch": then_branch, "else_branch": else_branch}
    pairs = zip(then_branch.outputs, else_branch.outputs)
    names = [f"{one.name}_or_{other.name}" for one, other in pairs]
    specs = _conditional_spec([], **branches)
    return ConditionalSiteInfo(
        building.add_op(_IF, passed, names, specs, [then_branch, else_branch], dict(branches))
    )


def _check_branches(cond: Tensor, then_branch: Graph, else_branch: Graph) -> None:
    """Refuses graphs that one op cannot choose between."""
    if len(then_branch.outputs) != len(else_branch.outputs):
        raise ValueError(
            "The then_branch and the else_branch must have the same number of outputs. They have "
            f"{len(then_branch.outputs)} and {len(else_branch.outputs)}."
        )
    for graph in (then_branch, else_branch):
        if any(tensor.by_ref for tensor in graph.inputs):
            raise NotImplementedError(
                f"TensorByRef is not implemented for the conditional op: {graph!r} has such inputs."
            )
    if cond.dtype is not dtypes.bool or cond.nelms != 1:
        raise popart_exception(f"The condition must be one boolean. Received: {cond!r}")
    for one, other in zip(then_branch.outputs, else_branch.outputs):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            raise popart_exception(
                f"Outputs of the two graphs differ in shape or type: {one!r} and {other!r}."
            )


def _lower_loop(lowering: GraphLowering, op: Op) -> None:
    """Runs the function of the graph in a loop.

    The graph around it, which the loop names as the one that it runs, does nothing but call it.
    What the loop carries are the outputs, which are the next iteration's first inputs, and the
    last values of the inputs that the graph writes and that the op has to write back.
    """
    graph = op.attributes["graph"]
    function = lowering.program.function(graph)
    inputs = lowering.read_inputs(op)
    count = len(graph.outputs)

    def body(*carried: Any) -> list[Any]:
        passed = [*carried[:count], *inputs[count:]]
        for position, value in zip(op.writes, carried[count:]):
            if position >= count:
                passed[position] = value
        outputs, modified, last = function.call(passed)
        written = [modified.get(position, passed[position]) for position in op.writes]
        tensors = [*graph.outputs, *(graph.inputs[position] for position in op.writes)]
        return [*map(lowering.placed, tensors, [*outputs, *written]), last]

    start = [*inputs[:count], *(inputs[position] for position in op.writes)]
    with lowering.effects_of(function.has_effects) as done:
        results = loops.repeat(op.attributes["repeat_count"], body, start)
        if not isinstance(results, (list, tuple)):
            results = [results]
        done.extend(r if isinstance(r, tf.Operation) else r.op for r in results[:1])
    lowering.define_outputs(op, results if start else [])


def _loop_spec(specs: shapes.Specs, graph: Graph, **_: Any) -> list[TensorSpec]:
    return [tensor.spec for tensor in graph.outputs]


_LOOP = register(
    OpKind("Loop", _loop_spec, lower=_lower_loop, gradient=GradientRule.CUT, is_loop=True)
)
_BODY = register(OpKind("LoopBody", _loop_spec, gradient=GradientRule.CUT, is_loop=True))


class LoopSiteInfo(CallSiteInfo):
    """Operands, results and graphs of one loop.

    The graph that it runs is one around the graph that is repeated: its inputs are iterator and
    condition, then those of the graph; its outputs the condition, then those of the graph. The
    loop takes and returns neither, but positions of inputs count iterator and condition.
    """

    def parent_input(self, idx: int) -> Tensor:
        """Returns the tensor that is passed in at a position of the loop.

        Args:
            idx: the position, from 2.

        Raises:
            IndexError: If there is none.
        """
        self._check_input(idx)
        return self.inputs[idx - _LOOP_INPUTS]

    def graph_to_parent_input_index(self, idx: int) -> int:
        """Returns the position among the inputs of the loop for one of its graph: the same.

        Args:
            idx: the position.

        Raises:
            IndexError: If nothing is passed in there.
        """
        return self._check_input(idx)

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Returns the position among the inputs of its graph for one of the loop: the same.

        Args:
            idx: the position.

        Raises:
            IndexError: If nothing is passed in there.
        """
        return self._check_input(idx)

    def graph_to_parent_output_index(self, idx: int) -> int:
        """Returns the position among the outputs of the loop for one of its graph: one less.

        Args:
            idx: the position, from 1.

        Raises:
            IndexError: If nothing comes out there.
        """
        return super().graph_to_parent_output_index(idx - _LOOP_OUTPUTS)

    def parent_to_graph_output_index(self, idx: int) -> int:
        """Returns the position among the outputs of its graph for one of the loop: one more.

        Args:
            idx: the position.

        Raises:
            IndexError: If nothing comes out there.
        """
        return super().parent_to_graph_output_index(idx) + _LOOP_OUTPUTS

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """Returns the first input of the loop's graph that a tensor is passed in for.

        Args:
            parent_tensor: the tensor.

        Raises:
            ValueError: If it is not passed in.
        """
        return self.called_graph.inputs[self._position_of(parent_tensor) + _LOOP_INPUTS]

    def _check_input(self, idx: int) -> int:
        """Returns the position of a loop's operand after checking it."""
        super().graph_to_parent_input_index(idx - _LOOP_INPUTS)
        return idx


def repeat(
    graph: Graph,
    repeat_count: int,
    *inputs: TensorLike | Iterable[TensorLike],
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
) -> tuple[Tensor, ...]:
    """Calls a graph several times, each time with its outputs as its first inputs.

    Args:
        graph: the graph, with at least as many inputs as outputs.
        repeat_count: how often.
        *inputs: the arguments of the first iteration, in order. Those that are not
            the outputs of the time before stay the same, unless they are passed by reference.
        inputs_dict: the other arguments, by input of the graph.

    Returns:
        The outputs of the last time; for 0 times, the first inputs.

    Raises:
        ValueError: If the count is negative, there are more outputs than inputs, or as `call` does.
        TypeError: As `call` does.
        popart.popart_exception: As `call` does.
    """
    return repeat_with_info(graph, repeat_count, *inputs, inputs_dict=inputs_dict).outputs


def repeat_with_info(
    graph: Graph,
    repeat_count: int,
    *inputs: TensorLike | Iterable[TensorLike],
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """Calls a graph several times, as `repeat` does.

    Args:
        graph: the graph.
        repeat_count: how often.
        *inputs: the arguments of the first iteration, in order.
        inputs_dict: the other arguments, by input of the graph.
        check_inputs: whether inputs without a value are refused; else they are zero.

    Returns:
        What is known of the loop; its `outputs` are those of the last time.

    Raises:
        ValueError: As `repeat` does.
        TypeError: As `call` does.
        popart.popart_exception: As `call` does.
    """
    if repeat_count < 0:
        raise ValueError(f"Repeat count must be >= 0. Received: {repeat_count}")
    if len(graph.outputs) > len(graph.inputs):
        raise ValueError(
            "To repeat the subgraph, it must have at least as many inputs as outputs: each output "
            f"is an input of the next iteration. {graph!r} has {len(graph.outputs)} outputs and "
            f"{len(graph.inputs)} inputs."
        )
    passed = calls.bind(graph, inputs, inputs_dict or {}, check_inputs)
    op = building.add_op(
        _LOOP,
        passed,
        [tensor.name for tensor in graph.outputs],
        _loop_spec([], graph),
        [_around(graph)],
        {"graph": graph, "repeat_count": repeat_count},
    )
    op.modified.update(i for i, tensor in enumerate(graph.inputs) if tensor.by_ref)
    return LoopSiteInfo(op)


def _around(graph: Graph) -> Graph:
    """Returns the wrapper graph of a loop, which calls the repeated graph."""
    found = graph.ir.create_empty_graph(f"{graph.id}__loop_wrapper")
    with found:
        graph_input((), dtypes.int32, "iterator")
        condition = graph_input((), dtypes.bool, "condition")
        inputs = [graph_input(**t.spec, name=t.name, by_ref=t.by_ref) for t in graph.inputs]
        names = [tensor.name for tensor in graph.outputs]
        op = building.add_op(_BODY, inputs, names, _loop_spec([], graph), [graph], {"graph": graph})
        op.modified.update(i for i, tensor in enumerate(graph.inputs) if tensor.by_ref)
        for tensor in (condition, *op.outputs):
            found.add_output(tensor)
    return found
