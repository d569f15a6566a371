"""`LivenessProgramStep`: what is live at each step of the program, besides what always is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tensorflow_ipu.configs.short_repr import shows
from tensorflow_ipu.frontends.pva.memory import storage_category
from tensorflow_ipu.frontends.pva.objects import NotModelledError, PvaObject
from tensorflow_ipu.frontends.pva.program_tree import ProgramTree
from tensorflow_ipu.frontends.pva.programs import Program
from tensorflow_ipu.planner.plan import IpuMemory, LiveBuffer, Plan


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Variable(PvaObject):
    """Something that takes memory of an IPU.

    Attributes:
        name: Name of the tensor or variable.
        bytes: Its size on the IPU, all tiles.
        category: Its storage category.
    """

    name: str
    bytes: int
    category: str

    __repr__ = shows(lambda self: {"": self.name, "bytes": self.bytes, "category": self.category})


class NotAlwaysLiveMemory(PvaObject):
    """What is live at a step on all tiles of its IPU, besides what always is.

    Args:
        num_bytes: of all of it.
        variables: what it is; None where the report does not say.

    Attributes:
        bytes: Bytes of all of it.
    """

    def __init__(self, num_bytes: int, variables: tuple[Variable, ...] | None) -> None:
        self.bytes = num_bytes
        self._variables = variables

    @property
    def variables(self) -> tuple[Variable, ...]:
        """What it is, largest first.

        Raises:
            NotModelledError: the report lists it only where most is live on the IPU.
        """
        if self._variables is None:
            raise NotModelledError(
                "A report lists the variables of the step at which most is live on an IPU; of the "
                "others it has the bytes. Take max(steps, key=lambda s: "
                "s.notAlwaysLiveMemory.bytes)."
            )
        return self._variables

    __repr__ = shows(lambda self: {"bytes": self.bytes})


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LivenessProgramStep(PvaObject):
    """A step of the program, an op on its IPU, with what is live there.

    Attributes:
        program: The program of the op.
        notAlwaysLiveMemory: What is live besides what always is.
    """

    program: Program
    notAlwaysLiveMemory: NotAlwaysLiveMemory

    __repr__ = shows(lambda self: {"": self.program.name, "bytes": self.notAlwaysLiveMemory.bytes})


def liveness_steps(plan: Plan, tree: ProgramTree) -> list[LivenessProgramStep]:
    """Returns the steps of a program, those of IPU 0 first.

    Args:
        plan: of the program.
        tree: its programs.
    """
    return [step for memory in plan.memory for step in _steps(memory, tree)]


def always_live(plan: Plan) -> list[Variable]:
    """Returns what is live all the time, on all IPUs, largest first.

    Args:
        plan: of the program.
    """
    found = [v for memory in plan.memory for v in _variables(memory, always=True)]
    return sorted(found, key=lambda variable: -variable.bytes)


def _steps(memory: IpuMemory, tree: ProgramTree) -> Iterator[LivenessProgramStep]:
    """The steps of an IPU."""
    at_peak = tuple(_variables(memory, always=False))
    for op, num_bytes in zip(memory.live_ops.tolist(), memory.live_bytes.tolist()):
        known = at_peak if op == memory.peak_op else None
        yield LivenessProgramStep(tree.of_op(op), NotAlwaysLiveMemory(num_bytes, known))


def _variables(memory: IpuMemory, always: bool) -> Iterator[Variable]:
    """What is live at the peak of an IPU, without code and gaps if it is always there."""
    lasting = {category.name for category in memory.categories if category.always_live}
    for live in memory.at_peak:
        if (live.category in lasting) == always and _is_data(live, always):
            yield Variable(live.name, live.num_bytes, storage_category(live.category))


def _is_data(live: LiveBuffer, always: bool) -> bool:
    """Whether it holds data: code, stacks and gaps are named like their category."""
    return not always or live.name != live.category
