"""`Sequencer`: the order of ops that `in_sequence` asks for."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.core.op import Op

_MODES = (True, False, "pass")


@dataclasses.dataclass
class _Progress:
    """What came before, in one graph.

    Attributes:
        last: The last op in sequence.
        beside: Ops after it that are in no order among each other.
    """

    last: Op | None = None
    beside: list[Op] = dataclasses.field(default_factory=list)


class Sequencer:
    """Gives each op those that it has to run after."""

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
        """Opens a scope; what came before is forgotten when the last one closes."""
        self._modes.append(mode)
        try:
            yield
        finally:
            self._modes.pop()
            if not self._modes:
                self._progress.clear()

    def place(self, op: Op) -> list[Op]:
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
