"""The package `pva`: reads reports of programs as the PopVision analysis library does."""

from tensorflow_ipu.frontends.pva.compilation import CompilationReport
from tensorflow_ipu.frontends.pva.compute_sets import ComputeSet, ComputeSetVertices, VertexType
from tensorflow_ipu.frontends.pva.execution import (
    ActiveCycles,
    CycleRange,
    ExecutionReport,
    ExecutionStep,
    Run,
    StepIpu,
)
from tensorflow_ipu.frontends.pva.instrumentation import InstrumentationSettings
from tensorflow_ipu.frontends.pva.liveness import (
    LivenessProgramStep,
    NotAlwaysLiveMemory,
    Variable,
)
from tensorflow_ipu.frontends.pva.memory import (
    CategoryMemory,
    CompilationTile,
    MemoryCategories,
    MemoryTotal,
    TileMemory,
)
from tensorflow_ipu.frontends.pva.objects import NotModelledError
from tensorflow_ipu.frontends.pva.opening import Report, openReport
from tensorflow_ipu.frontends.pva.programs import (
    CallProgram,
    DoExchangeProgram,
    GlobalExchangeProgram,
    IfProgram,
    OnTileExecuteProgram,
    Program,
    ProgramVisitor,
    RepeatProgram,
    SequenceProgram,
    StreamCopyMidProgram,
    SyncProgram,
)
from tensorflow_ipu.frontends.pva.target import Graph, Target
from tensorflow_ipu.frontends.pva.versions import PoplarVersion, ProfileReportVersion

__all__ = [
    "ActiveCycles",
    "CallProgram",
    "CategoryMemory",
    "CompilationReport",
    "CompilationTile",
    "ComputeSet",
    "ComputeSetVertices",
    "CycleRange",
    "DoExchangeProgram",
    "ExecutionReport",
    "ExecutionStep",
    "GlobalExchangeProgram",
    "Graph",
    "IfProgram",
    "InstrumentationSettings",
    "LivenessProgramStep",
    "MemoryCategories",
    "MemoryTotal",
    "NotAlwaysLiveMemory",
    "NotModelledError",
    "OnTileExecuteProgram",
    "PoplarVersion",
    "ProfileReportVersion",
    "Program",
    "ProgramVisitor",
    "RepeatProgram",
    "Report",
    "Run",
    "SequenceProgram",
    "StepIpu",
    "StreamCopyMidProgram",
    "SyncProgram",
    "Target",
    "TileMemory",
    "Variable",
    "VertexType",
    "openReport",
]
