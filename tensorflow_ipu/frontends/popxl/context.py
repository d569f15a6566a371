"""What holds for the ops created next: the module `popxl.context`."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tensorflow_ipu.frontends.common import user_frames
from tensorflow_ipu.frontends.popxl.core.sequence import Sequencer
from tensorflow_ipu.frontends.popxl.tensor_location import ExecutionContext

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.core.op import Op
    from tensorflow_ipu.frontends.popxl.graph import Graph
    from tensorflow_ipu.frontends.popxl.ir import Ir

__all__ = [
    "debug_context_frame_offset",
    "gcg",
    "get_current_context",
    "get_current_graph",
    "get_ir",
    "get_main_graph",
    "gir",
    "gmg",
    "in_sequence",
    "io_tiles",
    "ipu",
    "name_scope",
    "op_debug_context",
]


# The programs of a session besides that of `run`, which has the ops of all other contexts.
_OF_WEIGHTS = (
    ExecutionContext.WeightsFromHostFragment,
    ExecutionContext.WeightsToHostFragment,
)


class _Context:
    """The open contexts, innermost last. There is one stack of each kind in a process."""

    def __init__(self) -> None:
        self.graphs: list[Graph] = []
        self.ipus: list[int | None] = [0]
        self.tile_sets: list[str] = ["compute"]
        self.names: list[str] = []
        self.execution_contexts: list[ExecutionContext] = [ExecutionContext.Normal]
        self.sequencer = Sequencer()
        self.hooks: dict[int, Callable[[Op], Any]] = {}
        self.handles = itertools.count()


_context = _Context()


class Context:
    """The open contexts of the process, as attributes. All objects of this class show the same."""

    def __repr__(self) -> str:
        return f"Context[{len(_context.graphs)} graphs, IPU {self.ipu_id}]"

    @property
    def graph(self) -> Graph:
        """The current graph.

        Raises:
            RuntimeError: Outside of all graphs.
        """
        return get_current_graph()

    @property
    def main_graph(self) -> Graph:
        """The main graph of the Ir of the current graph.

        Raises:
            RuntimeError: Outside of all graphs.
        """
        return get_main_graph()

    @property
    def ir(self) -> Ir:
        """The Ir of the current graph.

        Raises:
            RuntimeError: Outside of all graphs.
        """
        return get_ir()

    @property
    def ipu_id(self) -> int | None:
        """The IPU of ops created now; None where ops get no IPU."""
        return current_ipu()

    @property
    def io_tile_set(self) -> bool:
        """Whether ops created now are on the I/O tiles."""
        return current_tile_set() == "io"

    @property
    def in_sequence(self) -> bool | str:
        """The mode of the innermost `popxl.in_sequence`; False outside of all."""
        return _context.sequencer.mode

    @in_sequence.setter
    def in_sequence(self, mode: bool | str) -> None:
        _context.sequencer.mode = mode

    @property
    def name_scopes(self) -> list[str]:
        """The open name scopes, outermost first."""
        return list(_context.names)

    def push_name_scope(self, name: str) -> None:
        """Opens a name scope.

        Args:
            name: the name.
        """
        _context.names.append(name)

    def pop_name_scope(self) -> str:
        """Closes the innermost name scope and returns its name.

        Raises:
            IndexError: If none is open.
        """
        return _context.names.pop()

    def register_op_created_hook(self, fn: Callable[[Op], Any]) -> int:
        """Calls a function after each op that is created, in any graph.

        Args:
            fn: takes the op.

        Returns:
            A handle for `remove_op_created_hook`.
        """
        handle = next(_context.handles)
        _context.hooks[handle] = fn
        return handle

    def remove_op_created_hook(self, handle: int) -> None:
        """Ends the calls of a function.

        Args:
            handle: the result of `register_op_created_hook`.

        Raises:
            ValueError: If there is no such hook.
        """
        if handle not in _context.hooks:
            raise ValueError(f"Unknown op created hook: {handle}")
        del _context.hooks[handle]


_shown = Context()


def get_current_context() -> Context:
    """Returns the open contexts: current graph, IPU, name scopes."""
    return _shown


def created(op: Op) -> None:
    """Shows an op to the hooks of the context; for graphs.

    Args:
        op: the new op.
    """
    for hook in tuple(_context.hooks.values()):
        hook(op)


def get_current_graph() -> Graph:
    """Returns the graph that ops are added to: that of the innermost `with graph:`.

    Raises:
        RuntimeError: Outside of all of them.
    """
    if not _context.graphs:
        raise RuntimeError(
            "Trying to access the current graph, but no graph has been selected. Create ops inside "
            "a `with` statement of a graph: `with ir.main_graph:`."
        )
    return _context.graphs[-1]


def get_main_graph() -> Graph:
    """Returns the main graph of the Ir of the current graph.

    Raises:
        RuntimeError: Outside of all graphs.
    """
    return get_current_graph().ir.main_graph


def get_ir() -> Ir:
    """Returns the Ir of the current graph.

    Raises:
        RuntimeError: Outside of all graphs.
    """
    return get_current_graph().ir


gcg, gmg, gir = get_current_graph, get_main_graph, get_ir


def enter_graph(graph: Graph) -> None:
    """Makes a graph the current one.

    Args:
        graph: the graph.

    Raises:
        RuntimeError: If a graph of another Ir is the current one.
    """
    if _context.graphs and _context.graphs[-1].ir is not graph.ir:
        raise RuntimeError(
            "Cannot enter the graph: the previous context's Ir is different. Leave the graphs of "
            "one Ir before entering those of another."
        )
    _context.graphs.append(graph)


def leave_graph() -> None:
    """Makes the graph before it the current one again."""
    _context.graphs.pop()


def current_ipu() -> int | None:
    """Returns the IPU of ops created now; None if that is left open."""
    return _context.ipus[-1]


def current_tile_set() -> str:
    """Returns the tile set of ops created now: "compute" or "io"."""
    return _context.tile_sets[-1]


def current_scopes() -> tuple[str, ...]:
    """Returns the open name scopes, outermost first."""
    return tuple(_context.names)


def current_execution_context() -> ExecutionContext:
    """Returns the program of the session that ops created now are part of."""
    return _context.execution_contexts[-1]


def sequencer() -> Sequencer:
    """Returns what knows the order that the open `in_sequence` scopes ask for."""
    return _context.sequencer


@contextlib.contextmanager
def ipu(ipu: int | None) -> Iterator[int | None]:
    """Puts the ops created inside on an IPU of the replica.

    Args:
        ipu: index of the IPU, from 0. None leaves open where ops are.

    Yields:
        The index.
    """
    with _pushed(_context.ipus, ipu):
        yield ipu


@contextlib.contextmanager
def io_tiles() -> Iterator[None]:
    """Puts the ops created inside on the I/O tiles of their IPU.

    Yields:
        Nothing.
    """
    with on_tiles("io"):
        yield


@contextlib.contextmanager
def on_tiles(tile_set: str) -> Iterator[None]:
    """Puts the ops created inside on a tile set of their IPU.

    Args:
        tile_set: "compute" or "io".

    Yields:
        Nothing.
    """
    with _pushed(_context.tile_sets, tile_set):
        yield


@contextlib.contextmanager
def execution_context(execution_context: ExecutionContext) -> Iterator[None]:
    """Makes the ops created inside part of another program of the session.

    Args:
        execution_context: `WeightsFromHostFragment` for ops that run with each `weights_from_host`,
            `WeightsToHostFragment` for each `weights_to_host`; all others for each `run`.

    Yields:
        Nothing.
    """
    part = execution_context if execution_context in _OF_WEIGHTS else ExecutionContext.Normal
    with _pushed(_context.execution_contexts, part):
        yield


_execution_context = execution_context


@contextlib.contextmanager
def name_scope(name: str) -> Iterator[list[str]]:
    """Puts `name/` before the names of the tensors created inside.

    Args:
        name: the name.

    Yields:
        The open scopes, outermost first.
    """
    with _pushed(_context.names, name):
        yield list(_context.names)


@contextlib.contextmanager
def in_sequence(mode: bool | str = True) -> Iterator[None]:
    """Orders the ops created inside.

    Args:
        mode: True: each op runs after the one created before it; False: inside a scope of True,
            in any order among each other; "pass": without any effect on the order.

    Yields:
        Nothing.

    Raises:
        TypeError: If the mode is None.
    """
    if mode is None:
        raise TypeError("`None` cannot be passed to in_sequence. Expected: True, False or 'pass'.")
    with _context.sequencer.scope(mode):
        yield


@contextlib.contextmanager
def debug_context_frame_offset(i: int) -> Iterator[None]:
    """Leaves out frames when the user's line of an op is recorded.

    Args:
        i: how many frames.

    Yields:
        Nothing.
    """
    with user_frames.frame_offset(i):
        yield


def op_debug_context(name: str | Callable[..., Any]) -> Any:
    """Makes a function one whose ops are reported at the line of its call.

    Args:
        name: a name for debug information; or the function, as a decorator without arguments.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with user_frames.frame_offset(1):
                return function(*args, **kwargs)

        return call

    return decorate(name) if callable(name) else decorate


@contextlib.contextmanager
def _pushed(stack: list[Any], value: Any) -> Iterator[None]:
    stack.append(value)
    try:
        yield
    finally:
        stack.pop()
