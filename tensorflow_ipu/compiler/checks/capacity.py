"""Check that a compiled program fits in the memory of its IPUs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tensorflow.python.framework import errors

from tensorflow_ipu.compiler import observers
from tensorflow_ipu.compiler.analysis import size_bound
from tensorflow_ipu.device.attachment import System
from tensorflow_ipu.util.notices import warn_once

if TYPE_CHECKING:
    from tensorflow.python.framework import func_graph

    from tensorflow_ipu.compiler.executable import Executable

_ALLOW = "debug.allowOutOfMemory"
# A plan is made only for programs that may need more than this part of an IPU's memory. The other
# half is for code, temporaries and uneven tiles.
_NEARLY_FULL = 0.5
# Settings that write a report of each program, without a change of the program.
_WRITES_REPORTS = (
    'POPLAR_ENGINE_OPTIONS=\'{"autoReport.all": "true", "autoReport.directory": "reports"}\''
)


def check(executable: Executable, trace: func_graph.FuncGraph, report: str) -> None:
    """Checks that a program fits in memory, once for each compilation.

    Programs that the host evaluates are not planned. Nor are programs whose tensors are far from
    filling the memory even if all were live at once.

    Args:
        executable: the program.
        trace: the graph that it was compiled from.
        report: the directory of its report; empty if none was written.

    Raises:
        tf.errors.ResourceExhaustedError: It does not fit, and the policy is to refuse it. The text
            names remedies, and the report or how to get one.
    """
    policy = chosen_policy(executable.system)
    if not executable.on_device or policy == "mark":
        return
    chip = executable.system.device(executable.ordinal).chip
    if size_bound.bytes_at_most(executable, trace) <= _NEARLY_FULL * chip.memory:
        return
    # The planner is loaded only for programs that need it.
    from tensorflow_ipu.planner import planning
    from tensorflow_ipu.tuning.advice import capacity

    memory = planning.Planner(executable.workload).memory(executable.settings)
    if all(ipu.fits for ipu in memory):
        return
    verdict = capacity.check(executable.plan, policy)
    if verdict.action == capacity.RAISE:
        raise errors.ResourceExhaustedError(None, None, f"{verdict.message}\n\n{advice(report)}")
    if verdict.action == capacity.WARN:
        warn_once("%s\n\n%s", verdict.message, advice(report), key=verdict.message)


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
    if str(allowed).lower() == "true":
        return "mark"
    return attached.flags.capacity_policy
