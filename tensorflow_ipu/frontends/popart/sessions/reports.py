"""`ReportMethods`: what a session tells of its program: memory, cycles, its graph."""

from __future__ import annotations

import json
from typing import Any

from tensorflow_ipu.frontends.popart.enums import Instrumentation, IrSerializationFormat
from tensorflow_ipu.frontends.popart.errors import popart_runtime_error
from tensorflow_ipu.frontends.popart.sessions.base import SessionBase
from tensorflow_ipu.frontends.popart.sessions.ir import Ir
from tensorflow_ipu.frontends.pva import Report
from tensorflow_ipu.profiler.report_data import Executions, options_of

_INNER = "inner_ipu_"


class ReportMethods(SessionBase):
    """The methods of a session that report."""

    def getSummaryReport(self, resetProfile: bool = True) -> str:
        """Returns memory and time of the program as text.

        Args:
            resetProfile: whether the original forgets what was executed; reports here always have
                all runs.

        Raises:
            popart_runtime_error: If the session is not prepared, or its program is from a file.
        """
        text = str(self.getReport())
        if not self._is_profiled():
            text += "\nExecution profiling not enabled\n"
        return text

    def getReport(self) -> Report:
        """Returns memory and time of the program: a report of `pva`, and of `ipu.profiler`.

        Raises:
            popart_runtime_error: If the session is not prepared, or its program is from a file.
        """
        executable = self._reported()
        executions = Executions(executable.launches, executable.seconds)
        return Report.from_plan(self._plan(), options_of(executable), executions)

    def getSerializedGraph(self) -> bytes:
        """Returns the functions of the compiled program as a serialized `FunctionDefLibrary`.

        Raises:
            popart_runtime_error: If the session is not prepared, or its program is from a file.
        """
        return bytes(self._reported().library.SerializeToString(deterministic=True))

    def getCycleCount(self, id: str = "") -> int:  # noqa: A002
        """Returns the modelled cycles of one run.

        Args:
            id: "" for the whole run; "inner_ipu_0" and so on for an IPU.

        Raises:
            popart_runtime_error: If nothing was run, cycles are not counted, or there is no such
                counter.
        """
        if not self._runs or self._executable is None:
            raise popart_runtime_error("Must call run before getCycleCount.")
        if not self._options.instrumentWithHardwareCycleCounter:
            raise popart_runtime_error(
                "SessionOption 'instrumentWithHardwareCycleCounter' must be True to count cycles."
            )
        if id not in self._counters():
            raise popart_runtime_error(
                f"Invalid id for cycle counter: '{id}'. There are: "
                f"{', '.join(map(repr, self._counters()))}. Make sure you have set "
                "SessionOption::hardwareInstrumentations correctly."
            )
        timeline = self._plan().timeline
        if not id:
            return round(timeline.cycles)
        ipu = int(id[len(_INNER) :]) % self._executable.ipus_used
        return round(
            sum(
                segment.cycles
                for segment in timeline.segments
                if segment.ipu == ipu and segment.kind != "idle"
            )
        )

    def getIr(self) -> Ir:
        """Returns the graph of the session, to look at."""
        return Ir(self._model, self._options, self._flow, self._name, self._training is not None)

    def _serializeIr(self, format: IrSerializationFormat) -> str:  # noqa: A002
        """Returns the nodes of the graph as JSON; "" if the program is from a file.

        Args:
            format: JSON.
        """
        if self._is_from_file:
            return ""
        return json.dumps(self.getIr().to_dict())

    def _counters(self) -> list[str]:
        kinds = self._options.hardwareInstrumentations
        inner = [f"{_INNER}{ipu}" for ipu in range(self._device.numIpus)]
        return [
            *([""] if Instrumentation.Outer in kinds else []),
            *(inner if Instrumentation.Inner in kinds else []),
        ]

    def _reported(self) -> Any:
        """Returns the compiled program, if there are reports of it."""
        if self._executable is None:
            raise popart_runtime_error(
                "The session must have been prepared before a report can be fetched. Call "
                "prepareDevice."
            )
        if self._is_from_file:
            raise popart_runtime_error("Unable to get reports when using a cached executable.")
        return self._executable

    def _is_profiled(self) -> bool:
        return any(
            name.startswith("autoReport.") and str(value).lower() == "true"
            for name, value in self._options.engineOptions.items()
        )
