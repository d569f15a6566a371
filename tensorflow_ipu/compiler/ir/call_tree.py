"""The listing of a program as a tree of functions, ops and the functions they run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import op_def_registry

from tensorflow_ipu.compiler.ir.function_graphs import FunctionImporter, invariant_arguments
from tensorflow_ipu.compiler.ir.records import OpRecord


class CalledOp(NamedTuple):
    """One op of a function, with the functions that it runs.

    Args:
        record: its record in the listing.
        node: its definition.
        inputs: names of its input tensors, as in `Call.arguments`.
        outputs: names of its results.
        stateful: whether TensorFlow says that it has state.
        calls: the functions it runs.
    """

    record: OpRecord
    node: node_def_pb2.NodeDef
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    stateful: bool
    calls: tuple[Call, ...]

    @property
    def type(self) -> str:
        """The type of the op."""
        return self.record.type


class Call(NamedTuple):
    """A function as one op runs it.

    Args:
        function: its name.
        arguments: names of its arguments as tensors: `node:index`.
        results: names of the tensors that it returns.
        invariant: indices of the arguments that it returns unchanged at the same index.
        ops: its ops in the order of the listing.
    """

    function: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    invariant: frozenset[int]
    ops: tuple[CalledOp, ...]


def call_tree(importer: FunctionImporter, entry: str, records: Sequence[OpRecord]) -> Call:
    """Returns the tree of a listing.

    Args:
        importer: has the program's functions.
        entry: name of the function that is the program.
        records: the listing of these, from `listing.list_ops`.

    Raises:
        ValueError: The listing is not of these functions.
    """
    return _Builder(importer, iter(records)).call(entry)


class _Builder:
    """Builder of the tree, from records in the order of the listing."""

    def __init__(self, importer: FunctionImporter, records: Iterator[OpRecord]) -> None:
        self._importer = importer
        self._records = records

    def call(self, name: str) -> Call:
        """Takes the records of a function."""
        definition = self._importer.definition(name)
        nodes = {node.name: node for node in definition.node_def}
        ops = tuple(self._op(name, nodes) for _ in nodes)
        arguments, results = self._importer.tensors(name)
        invariant = frozenset(invariant_arguments(definition))
        return Call(name, arguments, results, invariant, ops)

    def _op(self, function: str, nodes: dict[str, node_def_pb2.NodeDef]) -> CalledOp:
        """Takes the records of a function's next op and of the functions that the op runs."""
        record = next(self._records, None)
        if record is None or record.function != function or record.name not in nodes:
            raise ValueError(
                f"Expected the listing of a program with function {function!r}, received one "
                f"that has {record} there. List the ops of this very library."
            )
        node = nodes[record.name]
        definition = op_def_registry.get(node.op)
        return CalledOp(
            record,
            node,
            tuple([name if ":" in name else name + ":0" for name in record.inputs]),
            tuple([f"{record.name}:{index}" for index in range(len(record.outputs))]),
            definition is not None and definition.is_stateful,
            tuple([self.call(name) for name in self._called(node)]),
        )

    def _called(self, node: node_def_pb2.NodeDef) -> list[str]:
        """Returns the names of the functions that an op runs, in the order of the listing."""
        if node.op in self._importer:
            return [node.op]
        definition = op_def_registry.get(node.op)
        names: list[str] = []
        for attribute in () if definition is None else definition.attr:
            if attribute.type == "func":
                names.append(node.attr[attribute.name].func.name)
            elif attribute.type == "list(func)":
                names += [function.name for function in node.attr[attribute.name].list.func]
        return [name for name in names if name in self._importer]
