"""Compiled programs of PopXL in a cache, and the lines of the log about them."""

from __future__ import annotations

import numpy as np
import popxl
from popxl import ops

COMPILES, LOADS = "Starting compilation", "Loading serialized PopART executable from "


def run(scale=2.0, device="ipu_hw", start=1.0, **options):
    """Runs a program with a variable, a remote one and a float8 constant; returns the results."""
    ir = popxl.Ir()
    for name, value in options.items():
        setattr(ir.session_options, name, value)
    with ir.main_graph, popxl.in_sequence():
        out = popxl.d2h_stream((2,), popxl.float32)
        small = popxl.constant(np.full(2, scale), popxl.float8_143)
        x = popxl.variable(np.full(2, start, np.float32), name="x")
        buffer = popxl.remote_buffer((2,), popxl.float32)
        far = popxl.remote_variable(np.ones(2, np.float32), buffer, 0, name="far")
        y = x * ops.pow2scale_cast_from_fp8(small, popxl.constant(0), popxl.float32)
        ops.host_store(out, y + ops.remote_load(buffer, 0))
        ops.var_updates.accumulate_(x, y)
    with popxl.Session(ir, device) as session:
        session.get_tensor_data(x)
        results = session.run()[out]
        for _ in range(2):
            assert (session.get_tensor_data(x) == start * (1 + scale)).all()
        assert (session.get_tensor_data(far) == 1).all()
    return results


def test_equal_programs_are_loaded_and_others_compiled(tmp_path, popart_log, monkeypatch):
    folder = tmp_path / "made" / "cache"
    kept = {"enableEngineCaching": True, "cachePath": str(folder)}
    for number, (arguments, counts) in enumerate(
        [
            ({}, (1, 0)),
            ({"start": 3.0}, (0, 1)),
            ({"scale": 4.0}, (1, 0)),
            ({"engineOptions": {"opt.internalExchangeOptimisationTarget": "memory"}}, (1, 0)),
            ({"device": "ipu_model"}, (1, 0)),
            ({}, (0, 1)),
        ]
    ):
        files = len(list(folder.glob("*.popef")))
        found = run(**kept, **arguments)
        expected = arguments.get("start", 1.0) * arguments.get("scale", 2.0) + 1
        np.testing.assert_array_equal(found, [expected, expected])
        lines = popart_log()
        assert lines.count(COMPILES, LOADS) == counts, number
        assert len(list(folder.glob("*.popef"))) == files + counts[0]
        assert lines.count("Writing weights from host, ", "Writing weights to host complete.") == (
            1,
            2,  # after the run, and at the end
        )
        for tensor in ("x", "far"):
            phrase = f"Reusing TensorData for d2hWeightBuffer of tensor {tensor}\n"
            assert lines.count(phrase) == 1
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    monkeypatch.setenv("POPXL_CACHE_DIR", str(folder))
    for counts in ((1, 0), (0, 1)):
        run()
        assert popart_log().count(COMPILES, LOADS) == counts
    monkeypatch.delenv("POPXL_CACHE_DIR")
    run()
    assert popart_log().count(COMPILES, LOADS) == (1, 0)


def test_a_session_is_compiled_when_it_is_made(tmp_path, popart_log, monkeypatch):
    def make():
        ir = popxl.Ir()
        with ir.main_graph:
            out = popxl.d2h_stream((), popxl.float32)
            ops.host_store(out, popxl.variable(1.0) + 1)
        return popxl.Session(ir, "ipu_model"), out

    first, out = make()
    assert popart_log().count(COMPILES, LOADS) == (1, 0)
    monkeypatch.setenv("POPXL_CACHE_DIR", str(tmp_path))
    for counts in ((1, 0), (0, 1)):
        session, cached = make()
        assert popart_log().count(COMPILES, LOADS) == counts
        assert len(list(tmp_path.glob("*.popef"))) == 1
    with first, session:
        late, _ = make()
        assert first.run()[out] == session.run()[cached] == 2
        assert popart_log().count(COMPILES, LOADS) == (0, 0)
    with late:
        assert popart_log().count(COMPILES, LOADS) == (0, 1)
