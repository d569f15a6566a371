"""`LivenessProgramStep`: what is live at each step of the program, besides what always is."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

from tensorflow_ipu.configs.short_repr import shows
from tensorflow_ipu.frontends.pva.memory import storage_category
from tensorflow_ipu.frontends.pva.objects import NotModelledError, PvaObject
from tensorflow_ipu.frontends.pva.program_tree import ProgramTree
from tensorflow_ipu.frontends.pva.programs import Program
from tensorflow_ipu.planner.details import Details, details
from tensorflow_ipu.planner.memory.ipu import TEMPORARIES
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
        variables: lists what it is; None where the report does not say.

    Attributes:
        bytes: Bytes of all of it.
    """

    def __init__(
        self, num_bytes: int, variables: Callable[[], tuple[Variable, ...] | None]
    ) -> None:
        self.bytes = num_bytes
        self._list = variables

    @functools.cached_property
    def variables(self) -> tuple[Variable, ...]:
        """What it is, largest first; the temporaries of the step's op are one of them.

        Raises:
            NotModelledError: this version plans other memory than the report has, which lists it
                only for the step at which most is live on the IPU.
        """
        found = self._list()
        if found is None:
            raise NotModelledError(
                "The report was made by a version that planned memory otherwise. It lists the "
                "variables of the step at which most is live on an IPU, of others only the bytes: "
                "take max(steps, key=lambda s: s.notAlwaysLiveMemory.bytes), or make it again."
            )
        return found

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
    found = _Live(plan)
    return [step for memory in plan.memory for step in _steps(memory, tree, found)]


def always_live(plan: Plan) -> list[Variable]:
    """Returns what is live all the time, on all IPUs, largest first.

    Args:
        plan: of the program.
    """
    found = [v for memory in plan.memory for v in _variables(memory, always=True)]
    return sorted(found, key=lambda variable: -variable.bytes)


class _Live:
    """What is live at each step, found when it is first asked for.

    Args:
        plan: of the program.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @functools.cached_property
    def _details(self) -> Details:
        return details(self._plan)

    def at(self, memory: IpuMemory, step: int) -> tuple[Variable, ...] | None:
        """What is live at a step of an IPU; None if that is not known."""
        if not self._details.exact[memory.ipu]:
            known = memory.live_ops[step] == memory.peak_op
            return tuple(_variables(memory, always=False)) if known else None
        found = self._details.memory[memory.ipu]
        names = self._plan.workload.buffers
        live = [
            Variable(names[each.buffer].name, each.num_bytes, storage_category(each.category))
            for each in found.live(step)
        ]
        temporary = int(found.temporaries[step]) * found.compute_tiles
        if temporary:
            op = self._plan.workload.ops[int(memory.live_ops[step])]
            category = storage_category(TEMPORARIES)
            live.append(Variable(f"temporaries of {op.name}", temporary, category))
        return tuple(sorted(live, key=lambda variable: -variable.bytes))


def _steps(memory: IpuMemory, tree: ProgramTree, live: _Live) -> Iterator[LivenessProgramStep]:
    """The steps of an IPU."""
    both = zip(memory.live_ops.tolist(), memory.live_bytes.tolist())
    for step, (op, num_bytes) in enumerate(both):
        variables = functools.partial(live.at, memory, step)
        yield LivenessProgramStep(tree.of_op(op), NotAlwaysLiveMemory(num_bytes, variables))


def _variables(memory: IpuMemory, always: bool) -> Iterator[Variable]:
    """What is live at the peak of an IPU, without code and gaps if it is always there."""
    lasting = {category.name for category in memory.categories if category.always_live}
    for live in memory.at_peak:
        if (live.category in lasting) == always and _is_data(live, always):
            yield Variable(live.name, live.num_bytes, storage_category(live.category))


def _is_data(live: LiveBuffer, always: bool) -> bool:
    """Whether it holds data: code, stacks and gaps are named like their category."""
    return not always or live.name != live.category
