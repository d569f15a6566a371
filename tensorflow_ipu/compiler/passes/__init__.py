"""The compiler's passes, in the order in which they run.

A pass is a function `run(program, target)` that changes the Program in place. Before and after it
the Program is legal (`tensorflow_ipu.compiler.checks.verify`). Each is in a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.compiler.passes import (
    argument_types,
    drop_checks,
    host_once,
    host_placement,
    keep_effects,
    mask_labels,
    negations,
    numerics,
    order_collectives,
    place_ops,
    prune,
    random_streams,
    replica_constants,
    round_trips,
    sequential_loops,
    synthetic_indices,
    synthetic_parameters,
    ungate_gradients,
)

Pass = Callable[[Program, Target], None]

PIPELINE: dict[str, Pass] = {
    "round_trips": round_trips.run,
    "prune": prune.run,
    "drop_checks": drop_checks.run,
    "ungate_gradients": ungate_gradients.run,
    "prune_after_checks": prune.run,
    "replica_constants": replica_constants.run,
    "sequential_loops": sequential_loops.run,
    "random_streams": random_streams.run,
    "host_once": host_once.run,
    "host_placement": host_placement.run,
    "place_ops": place_ops.run,
    "order_collectives": order_collectives.run,
}

# Passes on a Program once its Executable is made, because the host runs it. The listing of the
# Executable is the program of the device, without them.
LOWERING: dict[str, Pass] = {
    "synthetic_parameters": synthetic_parameters.run,
    "synthetic_indices": synthetic_indices.run,
    "numerics": numerics.run,
    "mask_labels": mask_labels.run,
    "negations": negations.run,
    "argument_types": argument_types.run,
    "keep_effects": keep_effects.run,
}

# The passes that drop ops with effects: unused ops, and checks of values.
DROPPING = frozenset({"prune", "drop_checks", "prune_after_checks"})
