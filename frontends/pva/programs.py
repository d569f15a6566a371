"""`Program` and its kinds, and the `ProgramVisitor` whose methods they call."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from tensorflow_ipu.configs.short_repr import shows
from tensorflow_ipu.frontends.pva.compute_sets import ComputeSet
from tensorflow_ipu.frontends.pva.objects import PvaObject

_NO_CODE = "code of single programs is not modelled: memory.category of a tile has all of it"
_NO_DEBUG = "the name of a program is the name of its op, with its scopes"


class ProgramType(enum.Enum):
    """What a program does; each has a method of `ProgramVisitor`."""

    Call = "Call"
    DoExchange = "DoExchange"
    GlobalExchange = "GlobalExchange"
    If = "If"
    OnTileExecute = "OnTileExecute"
    Repeat = "Repeat"
    Sequence = "Sequence"
    StreamCopyMid = "StreamCopyMid"
    Sync = "Sync"


class Program(PvaObject):
    """A part of the program that was compiled.

    Args:
        name: of the op, stage or transfer.
        ipu: IPU of the replica that runs it; None for what is on several.

    Attributes:
        name: Its name.
        children: The programs that it runs.
    """

    Type = ProgramType

    NOT_MODELLED = {
        "debugContexts": _NO_DEBUG,
        "controlCodeByTile": _NO_CODE,
        "vertexCodeByTile": _NO_CODE,
    }

    def __init__(self, name: str, ipu: int | None = None) -> None:
        self.name = name
        self.children: list[Program] = []
        self._ipu = ipu

    @property
    def type(self) -> ProgramType:
        """What it does."""
        return ProgramType[type(self).__name__.removesuffix("Program")]

    def accept(self, visitor: ProgramVisitor) -> None:
        """Calls the method of a visitor that is for programs of this kind, with the program.

        The programs inside are not visited: the visitor, or who calls it, goes on to `children`.

        Args:
            visitor: the visitor.

        Raises:
            TypeError: it is not one.
        """
        if not isinstance(visitor, ProgramVisitor):
            raise TypeError(
                f"accept: expected a pva.ProgramVisitor; received {type(visitor).__name__}. Derive "
                "the class of the visitor from pva.ProgramVisitor."
            )
        getattr(visitor, f"visit{self.type.name}")(self)

    __repr__ = shows(
        lambda self: {"": self.name, "ipu": self._ipu, "children": len(self.children) or None}
    )


class CallProgram(Program):
    """Runs the programs of a function."""


class DoExchangeProgram(Program):
    """Moves data between the tiles of an IPU."""


class GlobalExchangeProgram(Program):
    """Moves data between IPUs: to the next stage, or in a collective of replicas."""


class IfProgram(Program):
    """Runs one of its children, a sequence for each branch."""


class OnTileExecuteProgram(Program):
    """Runs a compute set on the tiles of an IPU.

    Args:
        computeset: what it runs.
        ipu: IPU of the replica that runs it.

    Attributes:
        computeset: What it runs.
    """

    def __init__(self, computeset: ComputeSet, ipu: int | None = None) -> None:
        super().__init__(computeset.name, ipu)
        self.computeset = computeset


class RepeatProgram(Program):
    """Runs its children several times.

    Args:
        name: of the loop.
        count: iterations; None where the program does not say.
        ipu: IPU of the replica that runs it.
    """

    def __init__(self, name: str, count: int | None, ipu: int | None = None) -> None:
        super().__init__(name, ipu)
        self._count = count

    @property
    def count(self) -> int:
        """Iterations.

        Raises:
            ValueError: the number of iterations depends on data.
        """
        if self._count is None:
            raise ValueError(f"How often the loop {self.name} runs depends on data.")
        return self._count


class SequenceProgram(Program):
    """Runs its children one after the other."""


class StreamCopyMidProgram(Program):
    """Moves data between an IPU and the host, or memory of the host."""


class SyncProgram(Program):
    """Waits until all tiles, or all IPUs, have come to the same place."""


class ProgramVisitor:
    """Base class of visitors: a method for each kind of program, which does nothing.

    Programs derive from it and define the methods for the kinds that they want; then they call
    `program.accept(visitor)`. Methods for kinds that reports do not have are never called.
    """

    def visitCall(self, call: CallProgram) -> None:
        """Is called with a function call.

        Args:
            call: the program.
        """

    def visitDoExchange(self, doExchange: DoExchangeProgram) -> None:
        """Is called with an exchange between tiles.

        Args:
            doExchange: the program.
        """

    def visitGlobalExchange(self, globalExchange: GlobalExchangeProgram) -> None:
        """Is called with an exchange between IPUs.

        Args:
            globalExchange: the program.
        """

    def visitIf(self, ifProgram: IfProgram) -> None:
        """Is called with a conditional.

        Args:
            ifProgram: the program.
        """

    def visitOnTileExecute(self, onTileExecute: OnTileExecuteProgram) -> None:
        """Is called with a computation.

        Args:
            onTileExecute: the program.
        """

    def visitRepeat(self, repeat: RepeatProgram) -> None:
        """Is called with a loop.

        Args:
            repeat: the program.
        """

    def visitSequence(self, sequence: SequenceProgram) -> None:
        """Is called with a sequence.

        Args:
            sequence: the program.
        """

    def visitStreamCopyMid(self, streamCopyMid: StreamCopyMidProgram) -> None:
        """Is called with a transfer from or to the host.

        Args:
            streamCopyMid: the program.
        """

    def visitSync(self, sync: SyncProgram) -> None:
        """Is called with a synchronization.

        Args:
            sync: the program.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def walk(programs: Sequence[Program]) -> list[Program]:
    """Returns programs with all that are inside them, each before those inside it.

    Args:
        programs: the outermost.
    """
    found: list[Program] = []
    waiting = list(reversed(programs))
    while waiting:
        program = waiting.pop()
        found.append(program)
        waiting += reversed(program.children)
    return found
