"""Open contexts of the process: graphs, IPUs, tile sets, name scopes and sequences.

Graphs and ops have no types here: the classes of the IR read this state, and `popxl.context` shows
it to programs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from tensorflow_ipu.frontends.popxl.tensor_location import ExecutionContext

_MODES = (True, False, "pass")


@dataclasses.dataclass
class _Progress:
    """The ops of one graph that are in sequence already.

    Attributes:
        last: The last op in sequence.
        beside: Ops after it that are in no order among each other.
    """

    last: Any = None
    beside: list[Any] = dataclasses.field(default_factory=list)


class Sequencer:
    """Order of the ops that the open `in_sequence` scopes ask for."""

    def __init__(self) -> None:
        self._modes: list[Any] = []
        self._progress: dict[Any, _Progress] = {}

    @property
    def mode(self) -> Any:
        """The mode of the innermost scope; False outside of all. Can be set inside of one."""
        return self._modes[-1] if self._modes else False

    @mode.setter
    def mode(self, mode: Any) -> None:
        if self._modes:
            self._modes[-1] = mode
        elif mode is not False:
            self._modes.append(mode)

    @contextlib.contextmanager
    def scope(self, mode: Any) -> Iterator[None]:
        """Opens a scope; the last one to close forgets the order."""
        self._modes.append(mode)
        try:
            yield
        finally:
            self._modes.pop()
            if not self._modes:
                self._progress.clear()

    def place(self, op: Any) -> list[Any]:
        """Returns the ops that a new op runs after, and remembers it for those that follow.

        Args:
            op: the op.

        Raises:
            ValueError: If the mode of the innermost scope is none of the three.
        """
        if not self._modes:
            return []
        mode = self._modes[-1]
        if not any(mode is known or (known == "pass" and mode == known) for known in _MODES):
            raise ValueError(
                f"in_sequence mode not understood: {mode!r}. Expected: True, False or 'pass'."
            )
        if mode == "pass" or True not in self._modes:
            return []
        progress = self._progress.setdefault((op.graph, op.execution_context), _Progress())
        before = [] if progress.last is None else [progress.last]
        if mode is False:
            progress.beside.append(op)
            return before
        before = progress.beside or before
        progress.last, progress.beside = op, []
        return before


class OpenContexts:
    """The stacks of open contexts, the innermost last."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.ipus: list[int | None] = [0]
        self.tile_sets: list[str] = ["compute"]
        self.names: list[str] = []
        self.execution_contexts: list[ExecutionContext] = [ExecutionContext.Normal]
        self.sequencer = Sequencer()
        self.hooks: dict[int, Callable[[Any], Any]] = {}
        self.handles = itertools.count()


#: The open contexts of the process.
OPEN = OpenContexts()


def current_graph() -> Any:
    """Returns the graph of the innermost `with graph:`, which ops are added to.

    Raises:
        RuntimeError: Outside of all of them.
    """
    if not OPEN.graphs:
        raise RuntimeError(
            "Trying to access the current graph, but no graph has been selected. Create ops inside "
            "a `with` statement of a graph: `with ir.main_graph:`."
        )
    return OPEN.graphs[-1]


def created(op: Any) -> None:
    """Calls the hooks of the context with a new op.

    Args:
        op: the new op.
    """
    for hook in tuple(OPEN.hooks.values()):
        hook(op)


def enter_graph(graph: Any) -> None:
    """Makes a graph the current one.

    Args:
        graph: the graph.

    Raises:
        RuntimeError: If a graph of another Ir is the current one.
    """
    if OPEN.graphs and OPEN.graphs[-1].ir is not graph.ir:
        raise RuntimeError(
            "Cannot enter the graph: the previous context's Ir is different. Leave the graphs of "
            "one Ir before entering those of another."
        )
    OPEN.graphs.append(graph)


def leave_graph() -> None:
    """Makes the graph before it the current one again."""
    OPEN.graphs.pop()


def current_ipu() -> int | None:
    """Returns the IPU of ops created now; None if that is left open."""
    return OPEN.ipus[-1]


def current_tile_set() -> str:
    """Returns the tile set of ops created now: "compute" or "io"."""
    return OPEN.tile_sets[-1]


def current_scopes() -> tuple[str, ...]:
    """Returns the open name scopes, outermost first."""
    return tuple(OPEN.names)


def current_execution_context() -> ExecutionContext:
    """Returns the session's program of ops created now."""
    return OPEN.execution_contexts[-1]


def sequencer() -> Sequencer:
    """Returns the order of ops in the open `in_sequence` scopes."""
    return OPEN.sequencer


@contextlib.contextmanager
def pushed(stack: list[Any], value: Any) -> Iterator[None]:
    """Keeps a value on a stack while the context is open.

    Args:
        stack: a stack of `OPEN`.
        value: the value.

    Yields:
        Nothing.
    """
    stack.append(value)
    try:
        yield
    finally:
        stack.pop()
