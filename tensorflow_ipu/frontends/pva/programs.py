"""The tree of a program: its steps, the compute sets they run, and visitors of it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, overload

from tensorflow_ipu.costs.cost import Cost
from tensorflow_ipu.planner.plan import Plan, Segment
from tensorflow_ipu.planner.program.structure import is_container
from tensorflow_ipu.planner.time.items import (
    CHIP_KINDS,
    COLLECTIVE,
    COMPUTE,
    EXCHANGE,
    HOST,
    IDLE,
    LINK,
    STREAMING,
    SYNC,
)
from tensorflow_ipu.planner.workload import Op
from tensorflow_ipu.util import op_names
from tensorflow_ipu.util.short_repr import shows

_Element = TypeVar("_Element")
_NO_CODE = "code of single programs is not modelled: memory.category of a tile has all of it"
_NO_DEBUG = "the name of a program is the name of its op, with its scopes"
_WAIT = "wait"


class NotModelledError(AttributeError):
    """A documented attribute is asked for that reports of tensorflow_ipu have no number for.

    It is an `AttributeError`, so `hasattr` tells what there is.
    """


class PvaObject:
    """The base of all objects of a report.

    Attributes:
        NOT_MODELLED: Documented attributes that a report has not, with the reason.
    """

    NOT_MODELLED: ClassVar[Mapping[str, str]] = {}

    # Type checkers must not take any name for an attribute.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Says why an attribute is not there; called when it was not found."""
            cls = type(self)
            if name.startswith("_") or hasattr(cls, name):
                return object.__getattribute__(self, name)  # raises what it raised
            reason = cls.NOT_MODELLED.get(name)
            if reason is not None:
                raise NotModelledError(
                    f"pva.{cls.__name__}.{name} is not modelled: {reason}. "
                    "docs/pva.md lists what reports of tensorflow_ipu have."
                )
            known = [n for n in dir(self) if not n.startswith("_") and n != "NOT_MODELLED"]
            raise AttributeError(
                f"pva.{cls.__name__} has no attribute {name!r}. It has {', '.join(known)}."
            )


class PrintLength:
    """How many elements the lists of one report show.

    Attributes:
        value: The number.
    """

    def __init__(self, value: int = 10) -> None:
        self.value = value


class PvaList(Sequence[_Element], Generic[_Element]):
    """A list of a report, made when it is first looked at. It cannot be changed.

    Args:
        make: makes the elements.
        length: how many of them `repr` shows.
    """

    def __init__(self, make: Callable[[], Sequence[_Element]], length: PrintLength) -> None:
        self._make = make
        self._length = length
        self._made: Sequence[_Element] | None = None

    @property
    def _elements(self) -> Sequence[_Element]:
        if self._made is None:
            self._made = self._make()
        return self._made

    @overload
    def __getitem__(self, index: int) -> _Element: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[_Element]: ...

    def __getitem__(self, index: int | slice) -> _Element | Sequence[_Element]:
        """One element, or some."""
        return self._elements[index]

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[_Element]:
        return iter(self._elements)

    def __repr__(self) -> str:
        """The first elements, and how many there are."""
        shown = [repr(element) for element in self._elements[: self._length.value]]
        if len(shown) < len(self):
            shown.append(f"... {len(self):,} in all")
        return f"[{', '.join(shown)}]"


class ProgramType(enum.Enum):
    """Kind of a program; each has a method of `ProgramVisitor`."""

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
        ipu: IPU of the replica that runs it; None for several.

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
        """Its kind."""
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
        computeset: its compute set.
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


@dataclasses.dataclass(frozen=True, eq=False)
class VertexType(PvaObject):
    """A type of vertices.

    Attributes:
        name: Its name, one of those that the cost of ops is modelled by.
    """

    name: str

    NOT_MODELLED = {"size": "the code of all vertex types of a tile is one number"}


@dataclasses.dataclass(frozen=True, eq=False)
class ComputeSetVertices(PvaObject):
    """The vertices of one type in a compute set.

    Attributes:
        type: Their type.
    """

    type: VertexType

    NOT_MODELLED = {"count": "ops are modelled by their cycles, not as single vertices"}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ComputeSet(PvaObject):
    """Compute set of an op, or of a stage in a pipeline.

    Attributes:
        name: Name of the op or stage.
        vertices: Its vertices, an entry for each vertex type.
    """

    name: str
    vertices: tuple[ComputeSetVertices, ...]

    __repr__ = shows(lambda self: {"": self.name, "vertices": [v.type.name for v in self.vertices]})


def compute_set(name: str, codelets: tuple[str, ...]) -> ComputeSet:
    """Returns a compute set.

    Args:
        name: of the op or stage.
        codelets: names of the vertex types it uses.
    """
    vertices = tuple(ComputeSetVertices(VertexType(codelet)) for codelet in codelets)
    return ComputeSet(name, vertices)


# The class of programs by kind of segment; computations have a compute set.
_CLASSES: Mapping[str, type[Program]] = {
    SYNC: SyncProgram,
    EXCHANGE: DoExchangeProgram,
    LINK: GlobalExchangeProgram,
    COLLECTIVE: GlobalExchangeProgram,
    HOST: StreamCopyMidProgram,
    STREAMING: StreamCopyMidProgram,
    IDLE: SyncProgram,
}


class _Key(NamedTuple):
    """Properties that all segments of one program share."""

    op: int | None
    kind: str
    name: str
    stage: int | None
    phase: str
    ipu: int | None


class ProgramTree:
    """The programs of a report.

    Args:
        plan: of the program.

    Attributes:
        root: The whole program, with everything inside.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._codelets = {time.op: time.cost.codelets for time in plan.timeline.ops}
        self._leaves: dict[_Key, Program] = {}
        self._stages: dict[tuple[int, str, str, int], SequenceProgram] = {}
        self._ops: dict[int, Program] = {}
        self.root = SequenceProgram(plan.workload.name)
        self._add_ops()
        for segment in plan.timeline.segments:
            self.program_of(segment)

    def all(self) -> list[Program]:
        """Returns all programs, each before those inside it."""
        return walk([self.root])

    def compute_sets(self) -> list[ComputeSet]:
        """Returns the compute sets of all programs."""
        return [p.computeset for p in self.all() if isinstance(p, OnTileExecuteProgram)]

    def of_op(self, op: int) -> Program:
        """Returns the program of an op.

        Args:
            op: index of the op, which computes something or has memory.
        """
        return self._ops.get(op, self.root)

    def program_of(self, segment: Segment) -> Program:
        """Returns the program that an IPU runs in a stretch of the timeline.

        Args:
            segment: the stretch; of segments that are alike all have one program.
        """
        key = _key(segment)
        if key not in self._leaves:
            parent = self._ops.get(-1 if segment.op is None else segment.op)
            if parent is None:
                parent = self.root if segment.stage is None else self._stage(segment)
            self._add_leaf(parent, key)
        return self._leaves[key]

    def _add_leaf(self, parent: Program, key: _Key) -> None:
        """Adds a program of consecutive work on an IPU."""
        if key.kind == COMPUTE:
            codelets = self._codelets.get(-1 if key.op is None else key.op, ())
            if key.op is None and key.stage is not None:
                codelets = self._codelets_of_stage(key.stage)
            leaf: Program = OnTileExecuteProgram(compute_set(key.name, codelets), key.ipu)
        else:
            leaf = _CLASSES[key.kind](key.name or _WAIT, key.ipu)
        parent.children.append(leaf)
        self._leaves[key] = leaf

    def _codelets_of_stage(self, stage: int) -> tuple[str, ...]:
        """The vertex types of all ops of a stage."""
        ops = self._plan.workload.ops
        found = (n for op, names in self._codelets.items() if ops[op].stage == stage for n in names)
        return tuple(dict.fromkeys(found))

    def _stage(self, segment: Segment) -> SequenceProgram:
        """The sequence of a stage in one of its phases."""
        key = segment.stage or 0, segment.phase, segment.name, segment.ipu
        if key not in self._stages:
            name = f"{segment.name} {segment.phase or 'forward'}"
            self._stages[key] = SequenceProgram(name, segment.ipu)
            self.root.children.append(self._stages[key])
        return self._stages[key]

    def _add_ops(self) -> None:
        """Adds a sequence for each op that does something, inside the loop or call it is in."""
        kinds = self._kinds()
        live = {int(op) for memory in self._plan.memory for op in memory.live_ops}
        inside: list[tuple[int, Program]] = []
        branches: dict[tuple[int, int], Program] = {}
        ops = self._plan.workload.ops
        for index, op in enumerate(ops):
            while inside and index >= inside[-1][0]:
                inside.pop()
            parent = inside[-1][1] if inside else self.root
            if isinstance(parent, IfProgram):
                parent = _branch(branches, parent, op)
            if is_container(index, op):
                inside.append((op.end, _container(op)))
                self._add(parent, index, inside[-1][1])
            elif index in kinds or index in live:
                self._add(parent, index, SequenceProgram(op.name, op.ipu))
                for kind in kinds.get(index, ()):
                    key = _Key(index, kind, op.name, None, "", op.ipu)
                    self._add_leaf(self._ops[index], key)

    def _add(self, parent: Program, index: int, program: Program) -> None:
        parent.children.append(program)
        self._ops[index] = program

    def _kinds(self) -> dict[int, list[str]]:
        """Programs of each op by its segments; in a pipeline without segments, by its cost."""
        timeline = self._plan.timeline
        found: dict[int, list[str]] = {}
        for segment in timeline.segments:
            if segment.op is not None and segment.kind not in found.setdefault(segment.op, []):
                found[segment.op].append(segment.kind)
        for time in timeline.ops:
            if time.op not in found:
                found[time.op] = _kinds_of(self._plan.workload.ops[time.op], time.cost)
        return found


def _key(segment: Segment) -> _Key:
    """Returns the key of a segment's program; all segments of an op share it."""
    if segment.op is not None:
        return _Key(segment.op, segment.kind, segment.name, None, "", segment.ipu)
    return _Key(None, segment.kind, segment.name, segment.stage, segment.phase, segment.ipu)


def _kinds_of(op: Op, cost: Cost) -> list[str]:
    """Programs of an op by type and cost; a transfer's cycles are exchange."""
    if op.type in op_names.LINK_COLLECTIVES:
        return [COLLECTIVE]
    if op.ipu is None or op.type in op_names.TRANSFERS:
        return [HOST]
    cycles = (cost.sync, cost.exchange, cost.compute)
    return [kind for kind, taken in zip(CHIP_KINDS, cycles) if taken]


def _container(op: Op) -> Program:
    """The program of an op that runs others."""
    if op.trip_count is not None or op.type in op_names.LOOPS:
        return RepeatProgram(op.name, op.trip_count, op.ipu)
    if op_names.is_conditional(op.type):
        return IfProgram(op.name, op.ipu)
    return CallProgram(op.name, op.ipu)


def _branch(branches: dict[tuple[int, int], Program], parent: IfProgram, op: Op) -> Program:
    """The sequence of the branch that an op is in."""
    key = id(parent), op.branch
    if key not in branches:
        branches[key] = SequenceProgram(f"branch {op.branch}", op.ipu)
        parent.children.append(branches[key])
    return branches[key]
