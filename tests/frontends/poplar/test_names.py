"""Each name of Poplar's core that programs need has a program here that is run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

FILES = Path(__file__).parent

#: Compiled and linked, but not run.
DECLARATIONS = "declarations.cpp"

#: What tutorials, operations of TensorFlow and several public repositories call, by class.
NAMES = {
    "utilities": "ArrayRef StringRef Interval OptionFlags Type DebugContext equivalent_device_type "
    "DebugNameAndId SyncType versionString packageHash IeeeHalf copyFloatToDeviceHalf "
    "copyDeviceHalfToFloat toString",
    "Target": "getTargetType getNumIPUs getTilesPerIPU getNumTiles getNumWorkerContexts "
    "getBytesPerTile getTypeSize getDataPathWidth getVectorWidth getFloatVectorWidth "
    "getHalfVectorWidth getTileClockFrequency createIPUTarget",
    "Device": "getId getTarget attach detach isAttached supportsRemoteBuffers createCPUDevice "
    "DeviceManager createDeviceManager getDevices getDevice IPUModel createDevice",
    "Graph": "addVariable addConstant clone setInitialValue setTileMapping getTileMapping "
    "createVirtualGraph getTopLevelGraph getReplicationFactor addComputeSet addVertex connect "
    "setPerfEstimate getPerfEstimate registerPerfEstimator addCodelets addFunction "
    "createHostWrite createHostRead addHostToDeviceFIFO addDeviceToHostFIFO addRemoteBuffer "
    "addHostFunction outputVertexGraph outputComputeGraph getSortedContiguousRegions",
    "Tensor": "valid elementType shape rank numElements dim slice slices flatten reshape "
    "dimShuffle dimShufflePartial transpose expand squeeze broadcast reinterpret concat "
    "getDebugStr shapeToString",
    "program": "Sequence add Execute Copy Repeat RepeatWhileTrue If Call PrintTensor Sync "
    "WriteUndef",
    "Engine": "compileGraph Executable serialize deserialize Engine load run loadAndRun "
    "writeTensor readTensor connectStream connectStreamToCallback connectHostFunction "
    "copyToRemoteBuffer copyFromRemoteBuffer printProfileSummary getReport StreamCallback",
    "registers": "cycleCount FloatingPointBehaviour setFloatingPointBehaviour "
    "getAndModifyFloatingPointBehaviour setStochasticRounding",
    "gcl": "allReduceCrossReplica reduceScatterCrossReplica allGatherCrossReplica "
    "allToAllCrossReplica allReduceWithinReplica perIPUTiles getMinIoTiles",
    "codelets": "Vertex MultiVertex SupervisorVertex Input Output InOut Vector VectorLayout half "
    "load_postinc store_postinc andc fmax fma sum clamp exp isnan cmplt "
    "__builtin_ipu_get_tile_id __builtin_ipu_get_scount_l __builtin_ipu_urand_f32",
    "pva": "openReport compilation execution poplarVersion numComputeSets numVertices numEdges "
    "numVars numTiles blocks cyclesFrom",
}


@pytest.mark.parametrize("group", NAMES)
def test_names_are_in_programs_that_run(group: str) -> None:
    text = "\n".join(path.read_text() for path in FILES.glob("*.cpp") if path.name != DECLARATIONS)
    missing = [name for name in NAMES[group].split() if not re.search(rf"\b{name}\b", text)]
    assert missing == []


def test_core_has_the_expected_values(run_poplar: Callable[..., str]) -> None:
    output = run_poplar("core.cpp")
    assert output.endswith(" checks\n")
    assert "differs" not in output


def test_declarations_compile_and_link(poplar_environment: dict[str, str], tmp_path: Path) -> None:
    command = ["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fPIC", "-shared"]
    command += ["-Wl,--no-undefined", str(FILES / DECLARATIONS), "-lpoplar"]
    subprocess.run([*command, "-o", str(tmp_path / "a.so")], env=poplar_environment, check=True)
