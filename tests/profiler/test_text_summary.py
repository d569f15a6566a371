"""The text summary of devices and programs."""

from __future__ import annotations

from dataclasses import dataclass, field

import tensorflow as tf

from tensorflow_ipu.compiler.ir.records import ArgumentSpec, OpRecord, TensorRecord
from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.profiler import text_summary as summary_lib
from tensorflow_ipu.runtime import system
from tests.support.planner import plans


def _record(op_type: str, flops: int | None, label: str, runs: int | None = 1) -> OpRecord:
    return OpRecord(
        name=op_type,
        type=op_type,
        function="main",
        depth=0,
        ipus=(0,),
        inputs=(),
        outputs=(TensorRecord("float32", (2,)),),
        bytes_in=8,
        bytes_out=8,
        flops=flops,
        flops_label=label,
        runs=runs,
    )


@dataclass
class Program:
    """An Executable with the attributes that the summary reads."""

    name: str = "cluster_0__net"
    ordinal: int = 0
    replicas: int = 2
    ipus_used: int = 1
    arguments: tuple[ArgumentSpec, ...] = (
        ArgumentSpec("x", tf.float32, (256,)),
        ArgumentSpec("w", tf.float32, (512,), True),
        ArgumentSpec("b", tf.float32, (512,), True),
    )
    ops: tuple[OpRecord, ...] = (
        _record("MatMul", 1000, "exact", runs=10),
        _record("Tanh", 5, "modelled"),
        _record("Bincount", None, ""),
    )
    launches: int = 4
    seconds: float = 2.0
    on_device: bool = True
    plan: Plan = field(default_factory=plans.plan)
    settings: Settings = field(default_factory=Settings)


def _describe(num_ipus: int | list[int], *programs: Program) -> list[str]:
    config = IPUConfig()
    config.auto_select_ipus = num_ipus
    try:
        system.configure_ipu_system(config)
        return summary_lib.describe(system.current(), programs).splitlines()  # type: ignore[arg-type]
    finally:
        system.reset_ipu_configuration()


def test_a_device_is_listed_with_its_program() -> None:
    lines = _describe(2, Program())
    measured = throughput.interval(Program().plan)
    attached = system.current().devices[0]
    assert lines[0].startswith(f"/device:IPU:0: 2 simulated {attached.chip.title}")
    assert lines[1].strip().startswith(f"{2 * attached.chip.tiles} tiles, ")
    assert [line.strip() for line in lines[2:]] == [
        "program cluster_0__net",
        "2 replicas of 1 IPU each",
        "inputs: 1, 1 KiB; variables: 2, 4 KiB (one replica)",
        "ops: 3 (1 MatMul, 1 Tanh, 1 Bincount)",
        "flops of one launch of one replica: 10 k (5 modelled; 1 ops without a formula left out)",
        "memory: fits; the fullest tile is tile 0 of IPU 0 with 1.37 KiB of 624 KiB (0.2 %)",
        f"a launch takes the chip 1,000 cycles, 0.755 us (modelled; {0.7547 * measured.low:.3f} us "
        f"to {0.7547 * measured.high:.3f} us by the spread of measurements)",
        "launches: 4, 2.000 s of the host's wall time (500.000 ms each; not a prediction for "
        "hardware)",
    ]


def test_programs_are_listed_under_their_device() -> None:
    lines = _describe([1, 4], Program(ordinal=1, launches=0))
    first, second = (
        lines.index("  no program has been compiled for it"),
        next(index for index, line in enumerate(lines) if line.startswith("/device:IPU:1")),
    )
    assert first < second < next(i for i, line in enumerate(lines) if "program cluster" in line)
    assert lines[-1].strip() == "never launched"


def test_what_makes_the_work_uncertain_is_said() -> None:
    ops = (
        _record("While", 0, "exact"),
        _record("RandomUniform", 2, "assumed", runs=None),
        _record("Exp", 1, "modelled")._replace(conditional=True),
    )
    text = "\n".join(_describe(1, Program(ops=ops)))
    for phrase in ("2 assumed", "1 loops of unknown trip count counted once", "all branches"):
        assert phrase in text


def test_program_of_host_needs_nothing_of_chip() -> None:
    text = "\n".join(_describe(1, Program(on_device=False)))
    assert "evaluated by the host" in text and "cycles" not in text


def test_the_summary_describes_the_process() -> None:
    assert summary_lib.summary().startswith("/device:IPU:0: 1 simulated ")
