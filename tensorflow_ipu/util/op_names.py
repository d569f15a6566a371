"""Categories of ops by type: the one table that compiler, planner and costs share.

It needs neither TensorFlow nor the rest of the package. Each set has a comment on its meaning.
`costs/` has the costs of ops, `compiler/operators/` the ops of the chip.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

# --- Ops that run functions ---

#: Loops: they run the functions of their attributes `cond` and `body`, and their results are the
#: arguments of the last iteration. `For` is none: programs have no such op.
LOOPS = frozenset({"While", "StatelessWhile"})
#: Conditionals: input 0 chooses the function to run, and the others are its arguments.
CONDITIONALS = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
#: Calls: they run the function of their attribute `f` once, with their inputs as arguments.
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
#: All ops that do nothing but run functions.
CONTROL_FLOW = LOOPS | CONDITIONALS | CALLS
#: The ones of these ops that TensorFlow takes for mere computations, and the same ops with state.
STATEFUL: Mapping[str, str] = {
    "StatelessWhile": "While",
    "StatelessIf": "If",
    "StatelessCase": "Case",
    "PartitionedCall": "StatefulPartitionedCall",
}

# --- Loops and branches of TensorFlow 1, whose ops are in one graph with everything else ---

#: They take a value into a loop.
ENTERS = frozenset({"Enter", "RefEnter"})
#: They take a value out of a loop.
EXITS = frozenset({"Exit", "RefExit"})
#: They take a value to the next iteration: the only edges that close a circle.
NEXT_ITERATIONS = frozenset({"NextIteration", "RefNextIteration"})
#: They pass on whichever of their inputs there is.
MERGES = frozenset({"Merge", "RefMerge"})
#: They pass their input on to one of two results.
SWITCHES = frozenset({"Switch", "RefSwitch"})
#: All ops of such loops and branches.
FRAME_OPS = ENTERS | EXITS | NEXT_ITERATIONS | MERGES | SWITCHES | {"LoopCond"}

# --- Variables ---

#: Reads all of a variable.
READ = "ReadVariableOp"
#: They load and store an entry of a remote buffer, in the program that the host runs.
REMOTE_LOAD, REMOTE_STORE = "IpuRemoteLoad", "IpuRemoteStore"
#: They read values of a variable, all or some, and change none.
READS = frozenset({READ, "ResourceGather", "ResourceGatherNd", REMOTE_LOAD})
#: The same, and queries of a variable's shape: no state depends on them.
QUERIES = READS | {"VariableShape"}
#: Variable that lasts for one run of a program.
PROGRAM_VARIABLE = "IpuProgramVariable"
#: They make the handle of a variable.
HANDLES = frozenset({"VarHandleOp", PROGRAM_VARIABLE})
#: Sets all of a variable to a value.
ASSIGN = "AssignVariableOp"
#: Dense changes of a variable by one value, and the op that computes the new value.
ACCUMULATIONS: Mapping[str, str] = {"AssignAddVariableOp": "AddV2", "AssignSubVariableOp": "Sub"}
#: Assignments to all of a variable.
ASSIGNMENTS = frozenset({ASSIGN, *ACCUMULATIONS})
_OPTIMIZER_UPDATES = ("ResourceApply", "ResourceSparseApply")
_WRITES = (
    *_OPTIMIZER_UPDATES,
    "Assign",
    "ResourceScatter",
    "ResourceStridedSliceAssign",
    REMOTE_STORE,
)

# --- Operands that are not read, or not all ---

#: They pass their operands on without a copy, perhaps with another shape.
PASSING = FRAME_OPS | {"Identity", "IdentityN", "StopGradient", "Reshape", "Squeeze", "ExpandDims"}
#: They read a part of their first operand, as large as their result.
SLICES = frozenset({"Slice", "StridedSlice", "Gather", "GatherV2", "GatherNd"}) | (READS - {READ})

# --- Shapes ---

#: They read the shape of a tensor only.
SHAPE_QUERIES = frozenset({"Shape", "ShapeN", "Size", "Rank"})

# --- Checks of values ---

#: Says that a condition does not hold.
ASSERTION = "Assert"
#: Checks of values, which the chip drops. `IsDroppedCheck` of the native library has the same.
DROPPED_CHECKS = frozenset({ASSERTION, "CheckNumerics", "CheckNumericsV2"})

# --- The host ---

#: They call back into Python.
PYTHON_CALLS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
INFEED, OUTFEED = "IpuInfeedDequeue", "IpuOutfeedEnqueue"
#: Draws the seed of a random op from the device's generator.
RANDOM_SEED = "IpuRandomSeed"
#: They exchange elements with a queue of the host. Both name it with their attribute `feed_id`.
FEEDS = frozenset({INFEED, OUTFEED})
TABLE_LOOKUP, TABLE_UPDATE = "IpuHostEmbeddingLookup", "IpuHostEmbeddingUpdate"
#: They read or write a table on the host.
TABLE_OPS = frozenset({TABLE_LOOKUP, TABLE_UPDATE})

#: The hosts of all instances do them together, in the middle of a program too.
INSTANCE_MEETINGS = frozenset({"IpuInstanceSum", "IpuInstanceBroadcast", "IpuInstanceGather"})

# --- Replicas ---

#: Index of the replica, and number of replicas.
REPLICA_INDEX, REPLICA_COUNT = "IpuReplicationIndex", "IpuReplicationFactor"
#: Returns its inputs, with the user's promise that they are equal on all replicas.
EQUALITY_PROMISE = "IpuAssumeEqualAcrossReplicas"


class Collective(NamedTuple):
    """A kind of collective of replicas.

    Args:
        group: attribute with the number of replicas in a group, 0 for all; empty if it always has
            all.
        adds: whether it computes, such as a sum, or only moves data.
        equalizes: whether its results are the same on all replicas of a group.
        of_result: whether the whole tensor is its result, not its operand.
        merged_up_to: option of a program's settings with the number of bytes up to which several
            are merged into one; empty if none are.
        on_links: whether the data go over the links between IPUs.
        whole_only: whether its group is always all replicas.
    """

    group: str = "replication_factor"
    adds: bool = False
    equalizes: bool = False
    of_result: bool = False
    merged_up_to: str = ""
    on_links: bool = True
    whole_only: bool = False


CROSS_REPLICA_SUM, REDUCE_SCATTER = "IpuCrossReplicaSum", "IpuReduceScatter"
ALL_GATHER, ALL_TO_ALL = "IpuAllGather", "IpuAllToAll"
REPLICA_BROADCAST = "IpuReplicaBroadcast"
#: Operation of a user's library, and one whose program has an exchange between replicas.
USER_OP, USER_COLLECTIVE = "IpuPrecompiledUserOp", "IpuPrecompiledUserCollective"
#: Operation of a user's library that runs on the host.
HOST_USER_OP = "IpuCpuUserOperation"
#: All collectives: a replica that comes to one waits for the others, and all come to them in one
#: order. `FORMULAS` in `costs/chip/collectives.py` has the cost of those on links.
COLLECTIVES: Mapping[str, Collective] = {
    CROSS_REPLICA_SUM: Collective(
        "replica_group_size",
        adds=True,
        equalizes=True,
        merged_up_to="maximum_cross_replica_sum_buffer_size",
    ),
    REDUCE_SCATTER: Collective(adds=True, merged_up_to="maximum_reduce_scatter_buffer_size"),
    ALL_GATHER: Collective(
        equalizes=True, of_result=True, merged_up_to="maximum_all_gather_buffer_size"
    ),
    ALL_TO_ALL: Collective(whole_only=True),
    REPLICA_BROADCAST: Collective("", equalizes=True),
    TABLE_UPDATE: Collective("", on_links=False),  # to the host, in the order of the replicas
    # Its program has the cost of the exchange.
    USER_COLLECTIVE: Collective("", on_links=False, whole_only=True),
}
#: Collectives that exchange data between IPUs.
LINK_COLLECTIVES = frozenset(name for name, row in COLLECTIVES.items() if row.on_links)
#: Collectives that compute, and collectives that only move data.
ADDING_COLLECTIVES = frozenset(name for name in LINK_COLLECTIVES if COLLECTIVES[name].adds)
MOVING_COLLECTIVES = LINK_COLLECTIVES - ADDING_COLLECTIVES
#: Collectives with which replicas can agree on the update of a variable: each result has something
#: of all of them.
AGREEING_COLLECTIVES = frozenset(
    name for name in LINK_COLLECTIVES if COLLECTIVES[name].adds or COLLECTIVES[name].equalizes
)

#: Products and convolutions of 8-bit floats. Programs compute them with other ops, in a function
#: whose call says that it is one of these.
FLOAT8_MATMUL, FLOAT8_CONVOLUTION = "Float8MatMul", "Float8Conv"

#: They move data between a chip and its host or other chips, which is timed as such: on the tiles
#: they cost nothing.
TRANSFERS = FEEDS | TABLE_OPS | LINK_COLLECTIVES


def is_loop(op_type: str) -> bool:
    """Returns whether an op is a loop, one of `LOOPS`."""
    return op_type in LOOPS


def is_conditional(op_type: str) -> bool:
    """Returns whether an op chooses the function to run, one of `CONDITIONALS`."""
    return op_type in CONDITIONALS


def is_call(op_type: str) -> bool:
    """Returns whether an op runs one function once, one of `CALLS`."""
    return op_type in CALLS


def is_control_flow(op_type: str) -> bool:
    """Returns whether an op does nothing but run functions: a loop, a conditional or a call."""
    return op_type in CONTROL_FLOW


def is_collective(op_type: str) -> bool:
    """Returns whether an op is a collective of replicas, one of `COLLECTIVES`."""
    return op_type in COLLECTIVES


def is_optimizer_update(op_type: str) -> bool:
    """Returns whether an op changes a variable by the rule of an optimizer, dense or sparse."""
    return op_type.startswith(_OPTIMIZER_UPDATES)


def is_update(op_type: str) -> bool:
    """Returns whether an op writes a variable, whole or in part."""
    return op_type.startswith(_WRITES)


def is_own(op_type: str) -> bool:
    """Returns whether an op is one of this package, not of TensorFlow."""
    return op_type.startswith("Ipu")


@functools.lru_cache(maxsize=65536)
def is_backward(name: str) -> bool:
    """Returns whether the name of an op, with its scopes, marks it as part of a backward pass.

    TensorFlow gives these scopes to ops of `tf.gradients` and `tf.GradientTape`. A scope that a
    program chose for `tf.gradients(..., name=)` is not known.

    Args:
        name: name of the op, such as `gradients/dense_1/MatMul_grad/MatMul`.
    """
    return _GRADIENT_SCOPE.search(name) is not None


_GRADIENT_SCOPE = re.compile(r"(^|/)(gradients|gradient_tape)(_\d+)?/")
