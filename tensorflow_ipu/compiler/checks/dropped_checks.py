"""Warnings about the user's checks of values that a program drops."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tensorflow.python.framework import ops
from tensorflow.python.ops import check_ops

from tensorflow_ipu.compiler import source_map
from tensorflow_ipu.compiler.source_map import SourceLocation, SourceMap
from tensorflow_ipu.util.notices import warn_once

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.cluster import Cluster
    from tensorflow_ipu.compiler.executable import Executable
    from tensorflow_ipu.compiler.ir.program import DroppedCheck, Program

_TENSORFLOW = os.path.dirname(os.path.dirname(check_ops.__file__))
# Modules of TensorFlow between the line that asks for a check and the op.
_MACHINERY = tuple(
    os.path.join(_TENSORFLOW, path)
    for path in """
    autograph/ eager/ framework/ util/ ops/gen_ ops/check_ops.py ops/cond.py ops/cond_v2.py
    ops/control_flow_assert.py ops/numerics.py ops/weak_tensor_ops.py
    """.split()
)
# The op of `tf.debugging.enable_check_numerics`, which adds one to each op, even to a library's.
_OF_ALL_OPS = "CheckNumericsV2"
_SHOWN = 5


def warn(program: Program, executable: Executable, cluster: Cluster) -> None:
    """Warns that the user's own checks were dropped; checks of libraries are not mentioned.

    Args:
        program: the Program, after the pass `drop_checks`.
        executable: its Executable.
        cluster: the Cluster, which knows the user's lines.
    """
    del executable
    found = dict.fromkeys(_written_by_user(check, cluster.sources) for check in program.dropped)
    lines = [str(source) for source in found if source is not None]
    if not lines:
        return
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    warn_once(
        "The chip has no checks of values, so programs run without them. Dropped are the checks "
        "of %s. To run a check, put it on the host with "
        "ipu.scopes.outside_compilation_scope(). To stop at NaN and infinities, set "
        "config.floating_point_behaviour (inv, div0, oflo).",
        f"{', '.join(lines[:_SHOWN])}{more}",
    )


def _written_by_user(check: DroppedCheck, sources: SourceMap) -> SourceLocation | None:
    """Returns the user's line that asks for a check, None if a library does."""
    if check.op == _OF_ALL_OPS:
        return sources.lookup(check.function, check.name)
    operation = sources.operation(check.function, check.name)
    return None if operation is None else _asked_at(operation)


def _asked_at(operation: ops.Operation) -> SourceLocation | None:
    for frame in reversed(list(operation.traceback or ())):
        if frame.filename.startswith(_MACHINERY) or source_map.is_scaffolding(frame.filename):
            continue
        if not source_map.is_users(frame.filename):
            return None
        return SourceLocation(frame.filename, frame.lineno, frame.name)
    return None
