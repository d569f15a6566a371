"""Check that a compiled program fits in the memory of its IPUs."""

from __future__ import annotations

import collections
import math
import shlex
from typing import TYPE_CHECKING, Any

from tensorflow.python.framework import dtypes, errors

from tensorflow_ipu.compiler import observers
from tensorflow_ipu.runtime.attachment import System
from tensorflow_ipu.util import op_names
from tensorflow_ipu.util.notices import warn_once

if TYPE_CHECKING:
    from tensorflow.python.framework import func_graph, ops

    from tensorflow_ipu.compiler.cluster import Cluster
    from tensorflow_ipu.compiler.executable import Executable
    from tensorflow_ipu.compiler.ir.program import Program


# Ops whose results are no data, small, or another name of another op's result.
_NO_DATA = frozenset(
    {"Const", "NoOp", op_names.READ, "Identity", "Reshape", "ExpandDims", "Squeeze", "Shape",
     "Placeholder", "Pack", "StridedSlice", "IdentityN", "Less"}
)  # fmt: skip
# Ops that put tensors into lists which grow in loops, and how many elements such lists are taken to
# have: the trace does not say.
_LIST_WRITERS = frozenset({"TensorListPushBack", "TensorListSetItem"})
_LIST_LENGTH = 1024
_HANDLES = frozenset({dtypes.resource, dtypes.variant, dtypes.string})


def bytes_at_most(executable: Executable, trace: func_graph.FuncGraph) -> int:
    """Returns an upper bound of the live bytes of a program's tensors on one IPU.

    All tensors count as if they were live together, and tensors of a pipeline as often as a stage
    may keep them. All variables count as if they were in the processor. Unknown dimensions count as
    much as the largest one of all arguments.

    Args:
        executable: the program.
        trace: the graph that it was compiled from.
    """
    sizes = [spec.num_bytes or 0 for spec in executable.arguments]
    unknown = max((d or 1 for spec in executable.arguments for d in spec.shape), default=1)
    kept = 1
    if executable.pipeline is not None:
        kept = 2 * executable.pipeline.schedule.description.stages
    return sum(sizes) + kept * _made(trace, unknown)


def _made(trace: Any, unknown: int) -> int:
    """Returns the bytes of all results in a trace, a function's once for each call."""
    calls: collections.Counter[str] = collections.Counter()
    total = _own(trace, unknown, calls)
    graphs = {}
    pending = [trace]
    while pending:
        for name, function in pending.pop()._functions.items():
            inner = getattr(function, "graph", None)
            if inner is not None and name not in graphs:
                graphs[name] = inner
                pending.append(inner)
    sizes = {name: _own(graph, unknown, calls) for name, graph in graphs.items()}
    return total + sum(size * max(1, calls[name]) for name, size in sizes.items())


def _own(graph: Any, unknown: int, calls: collections.Counter[str]) -> int:
    """Returns the bytes of all results of a graph's ops; counts calls in `calls`."""
    total = 0
    lists = False
    for op in graph.get_operations():
        kind = op.type
        if kind in _NO_DATA:
            continue
        lists = lists or kind in _LIST_WRITERS
        if op_names.is_call(kind):
            calls[op.get_attr("f").name] += 1
        elif kind == op_names.PROGRAM_VARIABLE:
            total += _variable_size(op)
        else:
            total += sum(_size(tensor, unknown) for tensor in op.outputs)
    return total * _LIST_LENGTH if lists else total


def _variable_size(op: ops.Operation) -> int:
    """Returns the bytes of a variable of a run, such as an accumulator."""
    shape, dtype = op.get_attr("shape"), op.get_attr("dtype")
    return math.prod(dim.size for dim in shape.dim) * int(dtypes.as_dtype(dtype).size)


def _size(tensor: ops.Tensor, unknown: int) -> int:
    """Returns the bytes of a tensor; handles have none."""
    dtype = tensor.dtype
    if dtype in _HANDLES:
        return 0
    shape = tensor.shape
    if shape.rank is None:
        return unknown * dtype.size
    # Not the shape itself: with the behaviour of TensorFlow 1 its elements are no integers.
    sizes = (unknown if d is None else d for d in shape.as_list())
    return math.prod(sizes) * int(dtype.size)


# --- The check ---

_ALLOW = "debug.allowOutOfMemory"
# A plan is made only for programs that may need more than this part of an IPU's memory. The other
# half is for code, temporaries and uneven tiles.
_NEARLY_FULL = 0.5
# Settings that write a report of each program, without a change of the program.
_WRITES_REPORTS = (
    'POPLAR_ENGINE_OPTIONS=\'{"autoReport.all": "true", "autoReport.directory": "reports"}\''
)


def check(program: Program, executable: Executable, cluster: Cluster) -> None:
    """Checks that a program fits in memory, once for each compilation.

    Programs that the host evaluates are not planned. Nor are programs whose tensors are far from
    filling the memory even if all were live at once.

    Args:
        program: the Program.
        executable: its Executable, of which observers had a report written.
        cluster: the Cluster, with the trace.

    Raises:
        tf.errors.ResourceExhaustedError: It does not fit, and the policy is to refuse it. The text
            names remedies, and the report or how to get one.
    """
    del program
    policy = chosen_policy(executable.system)
    if not executable.on_device or policy == "mark":
        return
    chip = executable.system.device(executable.ordinal).chip
    if bytes_at_most(executable, cluster.graph) <= _NEARLY_FULL * chip.memory:
        return
    # The planner is loaded only for programs that need it.
    from tensorflow_ipu.planner import planning
    from tensorflow_ipu.tuning.advice import out_of_memory

    memory = planning.Planner(executable.workload).memory(executable.settings)
    if all(ipu.fits for ipu in memory):
        return
    verdict = out_of_memory.check(executable.plan, policy)
    remedies = advice(observers.report_of(executable))
    if verdict.action == out_of_memory.RAISE:
        raise errors.ResourceExhaustedError(None, None, f"{verdict.message}\n\n{remedies}")
    if verdict.action == out_of_memory.WARN:
        warn_once("%s\n\n%s", verdict.message, remedies, key=verdict.message)


def advice(report: str) -> str:
    """Returns lines of advice for a program that does not fit in memory.

    Args:
        report: the directory of its report; empty if none was written.
    """
    if report:
        return (
            f"The report of the program is in {report}. The fastest configuration that fits: "
            f"tensorflow-ipu remedies {shlex.quote(report)}"
        )
    place = observers.report_place()
    if place:
        return (
            f"The report of the program will be in {place}. The fastest configuration that fits: "
            "tensorflow-ipu remedies REPORT"
        )
    return (
        f"The fastest configuration that fits: set {_WRITES_REPORTS} in the environment, run the "
        "program again, then tensorflow-ipu remedies reports"
    )


def chosen_policy(attached: System) -> str:
    """Returns the capacity policy of a configuration: `default`, `raise`, `warn` or `mark`."""
    allowed = attached.engine_options.get(_ALLOW, "false")
    if str(allowed).lower() == "true" or attached.plans_only:
        return "mark"
    return attached.flags.capacity_policy
