"""Listing of a compiled program in order: IPU, bytes, work and source line of each op."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import tensorflow as tf

from tensorflow_ipu.compiler.gc_pause import without_collections
from tensorflow_ipu.compiler.ir.function_graphs import Binding, FunctionImporter
from tensorflow_ipu.compiler.ir.node_facts import function_attributes
from tensorflow_ipu.compiler.ir.records import ArgumentSpec, OpRecord, TensorRecord
from tensorflow_ipu.compiler.listing.function_listing import FunctionLister, placed
from tensorflow_ipu.compiler.listing.text import format_listing
from tensorflow_ipu.compiler.sources.source_map import NOWHERE, Origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorflow.core.framework import function_pb2

__all__ = ["ArgumentSpec", "OpRecord", "SourceLookup", "TensorRecord", "format_listing", "list_ops"]


class SourceLookup(Protocol):
    """Interface for the origins of ops in a listing; `source_map.SourceMap` has it."""

    def origin(self, function: str, node: str) -> Origin:
        """Returns the origin of an op of a function."""


def list_ops(
    library: function_pb2.FunctionDefLibrary,
    entry: str,
    inputs: Sequence[ArgumentSpec],
    sources: SourceLookup | None = None,
    importer: FunctionImporter | None = None,
) -> tuple[OpRecord, ...]:
    """Lists the ops of a compiled program.

    The order is topological within each function, ties in the order of the definition, with the
    ops of loops, branches and calls right after the op that runs them. A function called twice is
    listed twice.

    Args:
        library: the program's functions.
        entry: name of the function that is the program.
        inputs: one description for each argument of the entry, captures included.
        sources: where to ask for the origins of ops.
        importer: imports the functions of the library; to be given when others need it too.

    Returns:
        The ops.

    Raises:
        ValueError: a function is missing or calls itself, `inputs` do not fit the entry, or the
            shapes contradict each other.
    """
    bindings = tuple(
        Binding(tf.as_dtype(spec.dtype), tuple(spec.shape), spec.is_variable) for spec in inputs
    )
    with without_collections():
        lister = _Lister(importer or FunctionImporter(library), sources)
        return tuple(placed(record, (0,)) for record in lister.records(entry, bindings))


class _Lister:
    """Lister of functions, with a cache by combination of bindings.

    Records of a function are kept as if it were the entry, on inherited IPUs where an op follows
    its caller; `FunctionLister` fits them into the caller.
    """

    def __init__(self, importer: FunctionImporter, sources: SourceLookup | None) -> None:
        self._importer = importer
        self._sources = sources
        self._known: dict[tuple[str, tuple[Binding, ...]], tuple[OpRecord, ...]] = {}
        self._results: dict[tuple[str, tuple[Binding, ...]], dict[int, np.ndarray]] = {}
        self._running: list[str] = []
        self._runs_functions: dict[str, bool] = {}

    def records(self, name: str, bindings: tuple[Binding, ...]) -> tuple[OpRecord, ...]:
        """Returns the ops of a function and of all functions it runs."""
        key = (name, bindings)
        if key in self._known:
            return self._known[key]
        if name in self._running:
            raise ValueError(
                f"Expected a program without recursion, received function {name!r} that calls "
                f"itself through {self._running}. An IPU program has no call stack; use a loop."
            )
        self._running.append(name)
        function = self._importer.graph(name, bindings)
        lister = FunctionLister(self, self._importer, function)
        self._known[key] = listed = lister.records()
        self._results[key] = lister.results()
        self._running.pop()
        return listed

    def results(self, name: str, bindings: tuple[Binding, ...]) -> dict[int, np.ndarray]:
        """Returns the results of a listed function that are constants, by index."""
        return self._results.get((name, bindings), {})

    def may_run_functions(self, op: tf.Operation) -> bool:
        """Returns whether ops of this type run functions, cached."""
        if op.type not in self._runs_functions:
            called = op.type in self._importer
            self._runs_functions[op.type] = called or bool(function_attributes(op))
        return self._runs_functions[op.type]

    def origin(self, function: str, node: str) -> Origin:
        """Returns the origin of an op."""
        return NOWHERE if self._sources is None else self._sources.origin(function, node)
