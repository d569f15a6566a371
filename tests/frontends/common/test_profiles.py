"""Reports that the engine options of sessions ask for."""

from __future__ import annotations

import gc
import json

import numpy as np
import popart
import popxl
import pva
from popxl import ops

from tests.support.popart import popart_models

STORES, RESTORES = "Storing profiles to cache", "Restoring profiles from cache"


def infer(device, folder, **options):
    """Runs a model once, and lets the session go."""
    chosen = popart.SessionOptions()
    chosen.engineOptions = {"autoReport.all": "true", "autoReport.directory": str(folder)}
    for name, value in options.items():
        setattr(chosen, name, value)
    builder = popart.Builder()
    y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2], "x")])
    model = builder.getModelProto()
    session = popart.InferenceSession(model, popart.DataFlow(1, [y]), device, userOptions=chosen)
    session.prepareDevice()
    popart_models.run(session, {"x": np.ones(2, np.float32)})


def train(device, folder):
    """Trains a model once, with the options in the environment."""
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(np.ones(2, np.float32))
    loss = builder.aiGraphcore.l1loss([w], 1.0)
    popart_models.run(popart_models.trainer(builder.getModelProto(), loss, device), {})


def launches(folder):
    gc.collect()
    return pva.openReport(str(folder / "profile.pop")).executions.launches


def test_models_are_profiled_and_profiles_cached(tmp_path, popart_log, monkeypatch):
    kept = {"enableEngineCaching": True, "cachePath": str(tmp_path / "cache")}
    with popart_models.device() as device:
        infer(device, tmp_path / "plain")
        assert launches(tmp_path / "plain" / "inference") == 1
        for counts in ((1, 0), (0, 1)):
            infer(device, tmp_path / "again", **kept)
            assert launches(tmp_path / "again" / "inference") <= 1
            assert (tmp_path / "cache" / "inference" / "profile.pop").is_file()
            assert popart_log().count(STORES, RESTORES) == counts
            (tmp_path / "again" / "inference" / "profile.pop").unlink()
        options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path / "env")}
        monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(options))
        train(device, tmp_path)
        assert launches(tmp_path / "env" / "training") == 1


def test_programs_of_popxl_are_profiled(tmp_path):
    ir = popxl.Ir()
    ir.session_options.engineOptions = {
        "autoReport.all": "true",
        "autoReport.directory": str(tmp_path),
    }
    with ir.main_graph:
        ops.host_store(popxl.d2h_stream((2,), popxl.float32), popxl.variable([1.0, 2.0]) + 1.0)
    with popxl.Session(ir, "ipu_hw") as session:
        session.run()
    del session
    assert launches(tmp_path / "inference") == 1
