"""Reports of the program of a session: memory, cycles, its graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnx import helper

from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.frontends.common import profiles
from tensorflow_ipu.frontends.common.enums import Instrumentation
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.errors import popart_runtime_error
from tensorflow_ipu.frontends.popart.options.session_options import SessionOptions
from tensorflow_ipu.frontends.popart.sessions.device_program import DeviceProgram
from tensorflow_ipu.frontends.popart.sessions.executable_files import ExecutableFiles
from tensorflow_ipu.frontends.popart.sessions.setup import Setup
from tensorflow_ipu.frontends.pva import Report
from tensorflow_ipu.profiler.report_data import Executions, options_of

_INNER = "inner_ipu_"


class SessionReports:
    """Reports of the program of a session."""

    def __init__(self, setup: Setup, program: DeviceProgram, files: ExecutableFiles) -> None:
        """Takes the program.

        Args:
            setup: options and device.
            program: the program.
            files: the file that the program came from, if any.
        """
        self._setup = setup
        self._program = program
        self._files = files

    def __repr__(self) -> str:
        return f"SessionReports[{self._setup.name}]"

    def summary(self) -> str:
        """Returns memory and time of the program as text.

        Raises:
            popart_runtime_error: If the session is not prepared, or its program is from a file.
        """
        text = str(self.report())
        return text if self._is_profiled() else f"{text}\nExecution profiling not enabled\n"

    def report(self) -> Report:
        """Returns memory and time of the program.

        Raises:
            popart_runtime_error: If the session is not prepared, or its program is from a file.
        """
        executable = self._reported()
        executions = Executions(executable.launches, executable.seconds)
        return Report.from_plan(self._program.plan(), options_of(executable), executions)

    def serialized_graph(self) -> bytes:
        """Returns the functions of the compiled program as a serialized `FunctionDefLibrary`.

        Raises:
            popart_runtime_error: If the session is not prepared, or its program is from a file.
        """
        return bytes(self._reported().library.SerializeToString(deterministic=True))

    def cycles(self, counter: str) -> int:
        """Returns the modelled cycles of one run.

        Args:
            counter: "" for the whole run; "inner_ipu_0" and so on for an IPU.

        Raises:
            popart_runtime_error: If cycles are not counted, or there is no such counter.
        """
        if not self._setup.options.instrumentWithHardwareCycleCounter:
            raise popart_runtime_error(
                "SessionOption 'instrumentWithHardwareCycleCounter' must be True to count cycles."
            )
        counters = self._counters()
        if counter not in counters:
            raise popart_runtime_error(
                f"Invalid id for cycle counter: '{counter}'. There are: "
                f"{', '.join(map(repr, counters))}. Make sure you have set "
                "SessionOption::hardwareInstrumentations correctly."
            )
        timeline = self._program.plan().timeline
        if not counter:
            return round(timeline.cycles)
        ipu = int(counter[len(_INNER) :]) % self._program.compiled().ipus_used
        return round(
            sum(
                segment.cycles
                for segment in timeline.segments
                if segment.ipu == ipu and segment.kind != "idle"
            )
        )

    def write(self, owner: Any, kept: Path | None) -> None:
        """Writes the report files that engine options request, or restores cached ones.

        Args:
            owner: the session; when it is gone, the files get its executions.
            kept: the folder where the compiled program is kept; None if it is not.

        Raises:
            OSError: If they cannot be written.
        """
        executable = self._program.compiled()
        engine = self._setup.options.engineOptions
        profile = profiles.Profile.asked_for(self._setup.name, engine, executable.system)
        if profile is None:
            return
        if self._files.folder is not None and profile.restore(self._files.folder):
            return
        report = Report.from_plan(self._program.plan(), options_of(executable), Executions())
        profile.write(owner, executable, report)
        if kept is not None:
            profile.store(kept)

    def _counters(self) -> list[str]:
        kinds = self._setup.options.hardwareInstrumentations
        inner = [f"{_INNER}{ipu}" for ipu in range(self._setup.device.numIpus)]
        return [
            *([""] if Instrumentation.Outer in kinds else []),
            *(inner if Instrumentation.Inner in kinds else []),
        ]

    def _reported(self) -> Executable:
        """Returns the compiled program, if there are reports of it."""
        if self._program.executable is None:
            raise popart_runtime_error(
                "The session must have been prepared before a report can be fetched. Call "
                "prepareDevice."
            )
        if self._files.has_loaded:
            raise popart_runtime_error("Unable to get reports when using a cached executable.")
        return self._program.executable

    def _is_profiled(self) -> bool:
        return any(
            name.startswith("autoReport.") and str(value).lower() == "true"
            for name, value in self._setup.options.engineOptions.items()
        )


class Ir:
    """The graph of a session: its nodes and their tensors, read only."""

    def __init__(self, setup: Setup) -> None:
        """Takes the graph.

        Args:
            setup: model and options of the session.
        """
        self._setup = setup

    def __repr__(self) -> str:
        return f"Ir[{self._setup.name} {len(self._setup.model.nodes)} nodes]"

    def getSessionName(self) -> str:
        """Returns the name of the session."""
        return self._setup.name

    def getSessionOptions(self) -> SessionOptions:
        """Returns a copy of the options of the session."""
        return self._setup.options.copied()

    def getDataFlow(self) -> DataFlow:
        """Returns batches and anchors."""
        return self._setup.flow

    def isTraining(self) -> bool:
        """Returns whether the session trains."""
        return self._setup.training is not None

    def to_dict(self) -> dict[str, Any]:
        """Returns the nodes of the main graph, as data for JSON."""
        return {"maingraph": [_node(node) for node in self._setup.model.nodes]}


def _node(node: Any) -> dict[str, Any]:
    attributes = {
        attribute.name: str(helper.get_attribute_value(attribute))
        for attribute in node.attribute
        if not attribute.g.node and not attribute.t.dims
    }
    return {
        "type": node.op_type,
        "domain": node.domain or "ai.onnx",
        "name": node.name,
        "inputs": [{"name": name} for name in node.input],
        "outputs": [{"name": name} for name in node.output],
        "attributes": attributes,
    }
