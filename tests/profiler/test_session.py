"""`profiler.profile`, the Keras callback, and the functions for reports of programs."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from tensorflow_ipu import profiler
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.profiler import session
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.runtime import system
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
