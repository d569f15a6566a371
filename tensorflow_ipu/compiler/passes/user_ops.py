"""Passes: load the libraries of custom ops, and make collectives of those with an exchange."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import errors

from tensorflow_ipu.compiler.ir.program import Program, node_tag
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.runtime import native
from tensorflow_ipu.runtime.attachment import System
from tensorflow_ipu.util import op_names

CPU = op_names.HOST_USER_OP
PRECOMPILED = op_names.USER_OP
# On nodes: outputs that their library says are equal on all replicas.
REPLICA_IDENTICAL_ATTRIBUTE = "_ipu_replica_identical_outputs"

_HASH = "library_hash"
_TARGET = "target"
_CODELETS = "codelets"
# On nodes: their name, which error messages and the user's functions get.
_NAME = "_ipu_user_op_name"
# On nodes: stands for the contents of the file of codelets.
_CODELETS_HASH = "_ipu_codelets_hash"


def run(program: Program, target: Target) -> None:
    """Loads the libraries of a Program's custom operations and checks their functions.

    Before: any legal Program. After: nodes of custom operations say which contents their library
    has, so that Programs with different ones are different, which outputs are equal on all
    replicas, and the chip that Poplar programs are built for.

    Raises:
        tf.errors.NotFoundError: If a library or a symbol is missing.
        tf.errors.InvalidArgumentError: If a library does not load.
        tf.errors.InternalError: If a library is of another API level.
        tf.errors.FailedPreconditionError: If the program is to be compiled for later, but a library
            does not say that this is possible.
    """
    for _, node in program.nodes():
        if node.op == PRECOMPILED:
            node.attr[_TARGET].s = target_text(target.system, target.ordinal, target.replicas)
            node.attr[_NAME].s = node.name.encode()
            _hash_codelets(node)
        if node.op in (CPU, PRECOMPILED):
            _check_node(node, target.system.pre_compiles)


def target_text(system: System, ordinal: int, replicas: int) -> bytes:
    """Returns the chip that Poplar programs of custom operations are built for.

    Args:
        system: the configuration to compile for.
        ordinal: of the device `/device:IPU:<ordinal>`.
        replicas: replicas of the program.

    Returns:
        Architecture, tiles and replicas, as the attribute `target` of custom operations has them.
    """
    chip = system.device(ordinal).chip
    return f"{chip.architecture} {chip.tiles} {replicas}".encode()


def takes(node: node_def_pb2.NodeDef, shapes: Sequence[Sequence[int]]) -> str:
    """Returns the cycles and bytes of a custom operation's Poplar program.

    Args:
        node: the operation.
        shapes: of its inputs.

    Returns:
        JSON with cycles and bytes; "" for operations that are no Poplar programs.
    """
    return native.build_user_op(node.SerializeToString(), shapes) if node.op == PRECOMPILED else ""


def exchanges(node: node_def_pb2.NodeDef) -> bool:
    """Returns whether a node is a custom operation in whose program replicas exchange data.

    Known after the program has been built, see `takes`.

    Args:
        node: any node.
    """
    return node.op == PRECOMPILED and native.user_op_exchanges(node.SerializeToString())


def use_collectives(program: Program, target: Target) -> None:
    """Makes collectives of the custom operations in whose programs replicas exchange data.

    Before: the programs of the operations have been built, and the operations are part of the order
    of collectives. After: the last replica to come to such an operation runs it for all.
    """
    if target.replicas == 1:
        return
    for _, node in program.nodes():
        if exchanges(node):
            node.op = op_names.USER_COLLECTIVE


def _hash_codelets(node: node_def_pb2.NodeDef) -> None:
    """Marks a node with the contents of its file of codelets."""
    path = node.attr[_CODELETS].s.decode()
    if not path:
        return
    try:
        contents = Path(path).read_bytes()
    except OSError as error:
        raise errors.NotFoundError(
            None,
            None,
            f"The codelets of the custom operation {node_tag(node.name)}, {path}, cannot be read: "
            f"{error.strerror}. Check the argument gp_path.",
        ) from error
    node.attr[_CODELETS_HASH].s = hashlib.sha256(contents).hexdigest().encode()


def identical_outputs(node: node_def_pb2.NodeDef) -> frozenset[int]:
    """Returns the outputs of a checked node that are equal on all replicas in any case."""
    if REPLICA_IDENTICAL_ATTRIBUTE not in node.attr:  # looking it up would add it
        return frozenset()
    return frozenset(node.attr[REPLICA_IDENTICAL_ATTRIBUTE].list.i)


def _check_node(node: node_def_pb2.NodeDef, pre_compile: bool) -> None:
    node.attr[_HASH].s = b""  # the library's present hash replaces it
    library = native.check_user_op(node.SerializeToString())
    node.attr[_HASH].s = library.library_hash.encode()
    if library.replica_identical:
        node.attr[REPLICA_IDENTICAL_ATTRIBUTE].list.i[:] = library.replica_identical
    if pre_compile and not library.hashable:
        path = node.attr["library_path"].s.decode()
        raise errors.FailedPreconditionError(
            None,
            None,
            "The device is configured for pre-compilation, but the custom operation "
            f"{node_tag(node.name)} of {path} is not hashable, so it cannot be pre-compiled. "
            "Operations of precompiled_user_op can, if their metadata sets is_hashable.",
        )
