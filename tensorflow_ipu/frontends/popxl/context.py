"""Context of the ops created next: graph, IPU, name scopes; the module `popxl.context`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tensorflow_ipu.frontends.common import user_frames
from tensorflow_ipu.frontends.popxl.core import scopes
from tensorflow_ipu.frontends.popxl.core.kinds import function
from tensorflow_ipu.frontends.popxl.tensor_location import ExecutionContext

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.ir import Graph, Ir, Op

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


class Context:
    """The open contexts of the process, as attributes. All objects of this class show the same."""

    def __repr__(self) -> str:
        return f"Context[{len(scopes.OPEN.graphs)} graphs, IPU {self.ipu_id}]"

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
        return scopes.current_ipu()

    @property
    def io_tile_set(self) -> bool:
        """Whether ops created now are on the I/O tiles."""
        return scopes.current_tile_set() == "io"

    @property
    def in_sequence(self) -> bool | str:
        """The mode of the innermost `popxl.in_sequence`; False outside of all."""
        return scopes.OPEN.sequencer.mode

    @in_sequence.setter
    def in_sequence(self, mode: bool | str) -> None:
        scopes.OPEN.sequencer.mode = mode

    @property
    def name_scopes(self) -> list[str]:
        """The open name scopes, outermost first."""
        return list(scopes.OPEN.names)

    def push_name_scope(self, name: str) -> None:
        """Opens a name scope.

        Args:
            name: the name.
        """
        scopes.OPEN.names.append(name)

    def pop_name_scope(self) -> str:
        """Closes the innermost name scope and returns its name.

        Raises:
            IndexError: If none is open.
        """
        return scopes.OPEN.names.pop()

    def _get_op_settings(self, name: str) -> Any:
        """Returns the settings of an op that is created now; for bindings of operations.

        Args:
            name: the name of the op.
        """
        return function("op_settings")(name)

    def _op_created(self, op: Any) -> None:
        """Does nothing: hooks have seen an op when the binding of an operation returns it.

        Args:
            op: the op.
        """

    def register_op_created_hook(self, fn: Callable[[Op], Any]) -> int:
        """Calls a function after each op that is created, in any graph.

        Args:
            fn: takes the op.

        Returns:
            A handle for `remove_op_created_hook`.
        """
        handle = next(scopes.OPEN.handles)
        scopes.OPEN.hooks[handle] = fn
        return handle

    def remove_op_created_hook(self, handle: int) -> None:
        """Ends the calls of a function.

        Args:
            handle: the result of `register_op_created_hook`.

        Raises:
            ValueError: If there is no such hook.
        """
        if handle not in scopes.OPEN.hooks:
            raise ValueError(f"Unknown op created hook: {handle}")
        del scopes.OPEN.hooks[handle]


_shown = Context()


def get_current_context() -> Context:
    """Returns the open contexts: current graph, IPU, name scopes."""
    return _shown


def get_current_graph() -> Graph:
    """Returns the graph of the innermost `with graph:`, which ops are added to.

    Raises:
        RuntimeError: Outside of all of them.
    """
    graph: Graph = scopes.current_graph()
    return graph


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


@contextlib.contextmanager
def ipu(ipu: int | None) -> Iterator[int | None]:
    """Puts the ops created inside on an IPU of the replica.

    Args:
        ipu: index of the IPU, from 0. None leaves open where ops are.

    Yields:
        The index.
    """
    with scopes.pushed(scopes.OPEN.ipus, ipu):
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
    with scopes.pushed(scopes.OPEN.tile_sets, tile_set):
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
    with scopes.pushed(scopes.OPEN.execution_contexts, part):
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
    with scopes.pushed(scopes.OPEN.names, name):
        yield list(scopes.OPEN.names)


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
    with scopes.OPEN.sequencer.scope(mode):
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
    """Decorator: attributes the function's ops to the caller's line in reports.

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
