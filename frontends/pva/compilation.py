"""`CompilationReport`: what is known of a program before it runs."""

from __future__ import annotations

import functools

from tensorflow_ipu.configs.short_repr import shows
from tensorflow_ipu.frontends.pva import liveness
from tensorflow_ipu.frontends.pva.compute_sets import ComputeSet
from tensorflow_ipu.frontends.pva.liveness import LivenessProgramStep, Variable
from tensorflow_ipu.frontends.pva.memory import CompilationTile
from tensorflow_ipu.frontends.pva.objects import PrintLength, PvaList, PvaObject
from tensorflow_ipu.frontends.pva.program_tree import ProgramTree
from tensorflow_ipu.frontends.pva.programs import Program
from tensorflow_ipu.frontends.pva.target import Graph, Target, target_of
from tensorflow_ipu.profiler.report import Report as SavedReport


class CompilationReport(PvaObject):
    """What the compiler and the planner know of a program.

    Args:
        report: the report that was read.
        tree: its programs.
        length: how much lists show of themselves.

    Attributes:
        target: What it was compiled for.
        tiles: The tiles of one replica, those of IPU 0 first.
        programs: All programs, each before those inside it: the first is the whole.
        computeSets: All compute sets.
        livenessProgramSteps: The steps of the program with what is live at each.
        alwaysLiveVariables: What is live all the time, largest first.
    """

    def __init__(self, report: SavedReport, tree: ProgramTree, length: PrintLength) -> None:
        plan = report.plan
        self._report = report
        self.target: Target = target_of(report)
        self.tiles: PvaList[CompilationTile] = PvaList(
            lambda: [
                CompilationTile(memory, tile)
                for memory in plan.memory
                for tile in range(len(memory.peak))
            ],
            length,
        )
        self.programs: PvaList[Program] = PvaList(tree.all, length)
        self.computeSets: PvaList[ComputeSet] = PvaList(tree.compute_sets, length)
        self.livenessProgramSteps: PvaList[LivenessProgramStep] = PvaList(
            lambda: liveness.liveness_steps(plan, tree), length
        )
        self.alwaysLiveVariables: PvaList[Variable] = PvaList(
            lambda: liveness.always_live(plan), length
        )

    @functools.cached_property
    def graph(self) -> Graph:
        """Sizes of the graph."""
        return Graph(len(self.computeSets), len(self._report.workload.buffers))

    @property
    def engineOptions(self) -> dict[str, str]:
        """The engine options that the program was compiled with."""
        return dict(self._report.options.get("engine", {}))

    __repr__ = shows(
        lambda self: {"": self._report.name, "target": self.target, "tiles": len(self.tiles)}
    )
