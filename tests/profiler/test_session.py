"""`profiler.profile`, the Keras callback, and the functions for reports of programs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from tensorflow_ipu import profiler
from tensorflow_ipu.compiler.ir.records import ArgumentSpec, OpRecord, TensorRecord
from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.time import throughput
from tensorflow_ipu.profiler import session
from tensorflow_ipu.profiler import session as summary_lib
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.runtime import system
from tests.support.planner import plans
from tests.support.reports import profiled as programs


def test_a_block_reports_on_its_programs(tmp_path) -> None:
    programs.configure()
    programs.run(4)
    with profiler.profile(tmp_path / "reports") as profiled:
        programs.run(8, launches=2)
        programs.run(16)
    programs.run(32)
    first, second = profiled.reports
    shapes = [report.workload.variables[0].shape for report in profiled.reports]
    assert shapes == [(8, 8), (16, 16)]
    assert (first.executions.launches, second.executions.launches) == (2, 1)
    assert [Report.load(path).name for path in profiled.directories] == [first.name, second.name]
    assert sorted((tmp_path / "reports").iterdir()) == sorted(profiled.directories)
    seconds = 2 * first.plan.timeline.seconds + second.plan.timeline.seconds
    assert profiled.modelled_seconds() == pytest.approx(seconds)
    assert first.name in str(profiled) and second.name in profiled._repr_html_()


def test_reports_inside_block_are_those_up_to_now() -> None:
    programs.configure()
    with profiler.profile() as profiled:
        assert profiled.reports == ()
        programs.run(launches=2)
        assert [report.executions.launches for report in profiled.reports] == [2]
        programs.run(launches=1)
        assert [report.executions.launches for report in profiled.reports] == [3]
    assert [report.executions.launches for report in profiled.reports] == [3]


def test_launches_of_programs_compiled_before_are_reported() -> None:
    programs.configure()
    programs.run(launches=3)
    with profiler.profile() as profiled:
        programs.run(launches=2)  # an equal program: it is not compiled again
    (report,) = profiled.reports
    assert report.executions.launches == 2
    assert profiler.reports()[0].executions.launches == 5


def test_a_block_may_have_several_configurations() -> None:
    programs.configure(1)
    with profiler.profile() as profiled:
        programs.run(launches=2)
        programs.configure(2)
        programs.run(launches=3)
        system.reset_ipu_configuration()
    assert [report.executions.launches for report in profiled.reports] == [2, 3]
    assert [report.target["replicas"] for report in profiled.reports] == [1, 2]
    assert [report.options["config"]["auto_select_ipus"] for report in profiled.reports] == [
        [1],
        [2],
    ]


def test_an_error_in_a_block_keeps_the_reports() -> None:
    programs.configure()
    with pytest.raises(KeyError), profiler.profile() as profiled:
        programs.run()
        raise KeyError
    assert len(profiled.reports) == 1


def test_a_block_without_programs_has_no_reports() -> None:
    with profiler.profile() as profiled:
        pass
    assert profiled.reports == () and str(profiled) == "" and "No program" in profiled._repr_html_()


def test_entering_twice_or_leaving_unentered_is_refused() -> None:
    profiled = profiler.profile()
    with profiled, pytest.raises(RuntimeError, match="in use"):
        profiled.__enter__()
    with pytest.raises(RuntimeError, match="`with`"):
        profiled.__exit__(None, None, None)


def test_directory_that_cannot_be_written_is_one_warning(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    programs.configure()
    warnings: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: warnings.append(text % args))
    for _ in range(2):
        with profiler.profile(tmp_path / "file", tmp_path / "file" / "board") as profiled:
            programs.run()
    assert len(profiled.reports) == 1 and profiled.directories == []
    assert [str(tmp_path / "file") in warning for warning in warnings] == [True, True]
    assert "TensorBoard" not in warnings[0] and "TensorBoard" in warnings[1]


def test_block_error_wins_over_report_error(tmp_path, monkeypatch) -> None:
    programs.configure()
    errors: list[str] = []
    monkeypatch.setattr(logging, "error", lambda text, *args: errors.append(text % args))
    monkeypatch.setattr(session.report_directory, "write", lambda *_: 1 / 0)
    with pytest.raises(KeyError, match="mine"), profiler.profile(tmp_path):
        programs.run()
        raise KeyError("mine")
    assert errors == ["The reports of a profile cannot be made: division by zero"]
    with pytest.raises(ZeroDivisionError), profiler.profile(tmp_path):
        programs.run()


def test_directories_are_those_of_the_beginning(tmp_path, monkeypatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    programs.configure()
    with profiler.profile("reports", "board") as profiled:
        programs.run()
        monkeypatch.chdir("elsewhere")
    (directory,) = profiled.directories
    assert directory.parent == tmp_path / "reports"
    assert (tmp_path / "board").is_dir() and not list((tmp_path / "elsewhere").iterdir())


def test_the_callback_reports_on_a_training(tmp_path) -> None:
    programs.configure()
    callback = profiler.Callback(tmp_path / "reports", tmp_path / "board", modelled_time=True)
    assert callback.reports == ()
    with ipu_strategy.IPUStrategy().scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,), name="out")])
        model.compile("sgd", "mse", steps_per_execution=2)
        data = tf.data.Dataset.from_tensors((np.ones((4, 3), np.float32), np.ones((4, 2))))
        history = model.fit(data.repeat(4), epochs=2, verbose=0, callbacks=[callback])
    (report,) = callback.reports
    assert report.executions.launches == 4
    assert "out" in {row.layer for row in report.layers()}
    seconds = report.plan.timeline.seconds
    assert history.history["modelled_seconds"] == pytest.approx([2 * seconds, 2 * seconds])
    assert len(list((tmp_path / "reports").iterdir())) == 1
    assert list((tmp_path / "board").glob("*/events.out.*"))


def test_public_names_are_documented() -> None:
    assert set(profiler.__all__) <= set(dir(profiler))
    for name in profiler.__all__:
        assert getattr(profiler, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'reprots'"):
        _ = profiler.reprots  # type: ignore[attr-defined]


# --- The text summary of devices and programs ---


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
