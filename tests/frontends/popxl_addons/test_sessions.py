"""Sessions with names: streams, checkpoints, runs and prints."""

from __future__ import annotations

import json
import logging
import sys
from types import SimpleNamespace

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.ops import var_updates
from popxl_addons.testing_utils import ops_of_type


class Loader:
    """A source of data that can be saved."""

    def __init__(self):
        self.position = 0

    def save(self, path):
        path.write_text(str(self.position))

    def resume(self, path):
        self.position = int(path.read_text())


def made(names=("a", "b"), **options):
    """Makes a session that adds its input to variables."""
    ir = popxl.Ir()
    with ir.main_graph:
        inputs = addons.InputStreams(x=((2,), popxl.float32))
        x = ops.host_load(inputs.x)
        state = addons.NamedTensors.from_dict(
            {f"layer.{name}": popxl.variable(np.zeros(2, np.float32), name=name) for name in names}
        )
        for variable in state.tensors:
            var_updates.accumulate_(variable, x)
        outputs = addons.OutputStreams.from_streams([addons.ops.host_store(x)])
    return addons.TaskSession(inputs, outputs, state, ir=ir, device_desc="ipu_hw", **options)


def test_runs_are_counted_and_checkpoints_restore_them(tmp_path):
    session = made(max_checkpoints=2)
    session.dataloader = Loader()
    session.add_session_state_info({"epoch": 3})
    folders = [tmp_path / str(i) for i in range(3)]
    with session:
        for i, folder in enumerate(folders):
            session.dataloader.position = i
            session.run({session.inputs.x: np.ones(2)})
            session.save_checkpoint(folder)
        assert not folders[0].exists()
        session.load_checkpoint(folders[1])
        assert session.session_state == {"steps": 2, "epoch": 3}
        assert session.dataloader.position == 1
        session.run({session.inputs.x: np.ones(2)})
        assert session.get_named_tensors_data().layer.a.tolist() == [3, 3]
        (folders[1] / "session_info.json").unlink()
        session.load_checkpoint(folders[1], report_missing="error")
        assert session.session_state == {"steps": 0, "epoch": 3}
    assert json.loads((folders[2] / "session_info.json").read_text()) == {"steps": 3, "epoch": 3}
    with np.load(folders[2] / "model" / "layer.b.npz") as arrays:
        assert arrays[arrays.files[0]].tolist() == [3, 3]
    with pytest.raises(ValueError, match=r"Missing: \['resume'\]"):
        session.dataloader = type("NoLoader", (), {"save": print})()


def test_values_of_another_session_are_found_by_name():
    source, target = made(), made(("b", "c"))
    with source:
        source.run({source.inputs.x: [1, 2]})
    target.load_from_session(source)
    data = target.get_named_tensors_data()
    assert data.layer.b.tolist() == [1, 2] and data.layer.c.tolist() == [0, 0]
    with pytest.raises(ValueError, match="layer.c"):
        target.load_from_session(source, "error")
    with pytest.warns(UserWarning, match="layer.a"):
        target.load_from_session(source, "warn")
    with pytest.raises(ValueError, match="report_missing must be"):
        target.load_from_session(source, "other")
    addons.write_variables_pb(target, {target.state.layer.c: [5.0, 6.0]})
    assert target.get_named_tensors_data().layer.c.tolist() == [5, 6]


def test_variables_that_are_files_are_saved_as_files(tmp_path, monkeypatch):
    def session(folder):
        ir = popxl.Ir()
        with ir.main_graph:
            factory = addons.VariableFactory(lambda: np.ones(3, np.float32), name="w")
            state = addons.NamedVariableFactories(w=factory).init(memmap_dir=tmp_path / folder)
            state.w += 1.0
        return addons.TaskSession(
            addons.InputStreams(), addons.OutputStreams(), state, ir=ir, device_desc="ipu_hw"
        )

    one = session("one")
    with one:
        one.run()
        one.save_checkpoint(tmp_path / "checkpoint")
    saved = np.fromfile(tmp_path / "checkpoint" / "model" / "w.npy", np.float32)
    assert saved.tolist() == [2, 2, 2]
    two = session("two")
    two.load_checkpoint(tmp_path / "checkpoint", skip_memmap=True)
    assert two.get_named_tensors_data().w.tolist() == [1, 1, 1]
    two.load_checkpoint(tmp_path / "checkpoint")
    assert two.get_named_tensors_data().w.tolist() == [2, 2, 2]
    assert np.fromfile(tmp_path / "two" / "w.npy", np.float32).tolist() == [2, 2, 2]
    addons.initialise_memmap_dir_from_checkpoint(tmp_path / "checkpoint", tmp_path / "three")
    assert session("three").get_named_tensors_data().w.tolist() == [2, 2, 2]
    logged = []
    wandb = SimpleNamespace(
        Histogram=np.ndarray.tolist, log=lambda values, step: logged.append((values, step))
    )
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    two.wandb_variable_histograms(3)
    assert logged == [({"w": [2, 2, 2]}, 3)]
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ImportError, match="pip install wandb"):
        two.wandb_variable_histograms()
    for transfer in (two.load_checkpoint, two.save_checkpoint):
        with pytest.raises(ValueError, match="wandb://.*Pass a folder"):
            transfer("wandb://team/project/run")


def test_streams_are_made_where_they_are_used():
    ir = popxl.Ir()
    with ir.main_graph:
        data, stream, x = addons.host_load([1, 2], popxl.float16, "x")
        assert (data.dtype, stream.tensor_id, x.name) == (np.float16, "x_stream", "x_hostload")
        target = addons.host_store(x * 2.0)
        assert target.tensor_id == "mul_out_stream" and target.dtype is popxl.float16
    with popxl.Session(ir) as session:
        assert session.run({stream: data})[target].tolist() == [2, 4]


def test_streams_are_found_by_name_number_and_attribute():
    with popxl.Ir().main_graph:
        streams = addons.InputStreams(x=((2,), popxl.float32), y=((), popxl.int32))
        assert streams.x is streams["x"] is streams[0] and streams[-1].dtype is popxl.int32
        assert list(streams) == streams.values() == streams[:] and len(streams) == 2
        assert "x" in streams and streams.y in streams and streams.keys() == ["x", "y"]
        copied = addons.InputStreams.from_streams(streams)
        assert copied.items() == [("x", streams.x), ("y", streams.y)]
        with pytest.raises(KeyError, match="'x', 'y'"):
            streams["z"]
        with pytest.raises(AttributeError, match="'x', 'y'"):
            streams.z  # noqa: B018


def test_prints_depend_on_the_level(monkeypatch):
    with popxl.Ir().main_graph as main:
        x = popxl.variable(1.0)
        addons.print_tensor(x)
        addons.print_text("text", level="TRACE")
        assert not main.ops
        monkeypatch.setenv("MODEL_LOG_LEVEL", "debug")
        addons.print_tensor(x, title="here")
        addons.print_text("text", 3)
        assert [op.attributes["title"] for op in main.ops] == ["here", "text"]
        with pytest.raises(ValueError, match="level must be one of"):
            addons.print_text("text", level="LOUD")


def test_helpers(caplog):
    with caplog.at_level(logging.INFO), addons.timer("Compiling"):
        pass
    assert "Compiling: 0.00 mins" in caplog.text
    assert addons.OrderedDict(a=1, b=2).idx(1) == 2
    assert addons.suffix_graph_name("Linear_subgraph(12)", "bwd") == "Linear_bwd"
    assert addons.overrides(Loader, object, "save") and not addons.overrides(Loader, Loader, "save")
    assert addons.duplicate_items([1, 2, 2, 1, 2, 3]) == [2, 1]
    with addons.null_context():
        assert addons.LEVELS[addons.MODEL_LOG_LEVEL] == addons.MODEL_LOG_LEVEL_VAL


def test_memory_proportions_reach_the_products_of_all_graphs():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones((2, 2), np.float32))
        graph = ir.create_graph(lambda a: a @ a, x)
        (y,) = ops.call(graph, x)
        with popxl.ipu(1):
            y.copy_to_ipu(1) @ x.copy_to_ipu(1, 0)
    addons.set_available_memory_proportion_by_ipu(ir, [0.2, 0.4])
    products = [graph.ops[-1], ir.main_graph.ops[-1]]
    assert [op.attributes["memory_proportion"] for op in products] == [0.2, 0.4]
    addons.set_available_memory_proportion_by_ipu(ir, [0.3])  # that of IPU 0 counts for the others
    assert [op.attributes["memory_proportion"] for op in products] == [0.3, 0.3]
    assert ops_of_type(ir.main_graph.ops, type(products[0])) == len(ir.main_graph.ops)
    assert ops_of_type(ir.main_graph.ops, int) == 0
    for wrong in ([], [0.2, 2.0]):
        with pytest.raises(ValueError, match="Proportions must be in"):
            addons.set_available_memory_proportion_by_ipu(ir, wrong)
    for switch in (addons.disable_fc_pass, addons.enable_fc_pass):
        switch(ir)
    with popxl.Session(ir, "ipu_hw") as session:
        session.run()


def test_operations_of_products_are_counted():
    with popxl.Ir().main_graph as main:
        for shapes in (((5,), (5,)), ((3, 2, 4), (3, 4, 6))):
            ops.matmul(*(popxl.constant(np.ones(shape, np.float32)) for shape in shapes))
    counts = addons.evaluate_FLOPs(main)["MatMul"]
    assert list(counts.values()) == [2 * 5, 2 * 3 * 2 * 4 * 6] and min(counts) >= 100


def test_operations_are_counted_by_graph(capsys):
    ir = popxl.Ir(2)
    with ir.main_graph:
        x = popxl.variable(np.ones((2, 3), np.float32))
        w = popxl.variable(np.ones((3, 3), np.float32))
        graph = ir.create_graph(lambda a, b: a @ b + 1.0, x, w)
        ops.repeat(graph, 4, x, w)
        x @ w
    name = graph.name
    product, total = (op.id for op in graph.ops)
    inside = {"MatMul": {product: 4 * 36}, "Add": {total: 4 * 6}, "TOT": 4 * 42}
    loop = {f"{name}__loop_wrapper_subgraph(1)": {"TOT": 4 * 42, name: inside}}
    last = {"MatMul": {ir.main_graph.ops[-1].id: 36}}
    assert addons.evaluate_FLOPs(ir.main_graph) == {"TOT": 204, **loop, **last}
    assert addons.total_FLOPs(ir) == 408
    addons.print_FLOPs(addons.evaluate_ir_FLOPs(ir), mode="flat")
    assert "MatMul: 360.000 FLOPs" in capsys.readouterr().out
    addons.print_FLOPs(addons.evaluate_FLOPs(ir.main_graph))
    assert "\nMatMul: 36.000 FLOPs" in capsys.readouterr().out
    assert addons.format_flops_scientific(12_300_000) == "12.300 MFLOPs"
