"""Programs that no session takes, and wrong uses of sessions."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
from popxl import ops

from tests.support.popxl.popxl_refusals import PE, f32, table


def _session(build=lambda: ops.exp(f32(2)), device="ipu_model"):
    build()
    return popxl.Session(popxl.gir(), device)


def _on_ipu_1():
    with popxl.ipu(1):
        ops.exp(f32(2))


def _after():
    x = f32(2)
    ops.exp(x)
    popxl.Session(popxl.gir())
    ops.exp(x)


def _copied():
    a, b = f32(2), f32(2)
    ops.var_updates.copy_var_update_(a, b)
    return a + 5


@table(
    ("device", ValueError, "Incorrect device type provided", lambda: _session(device="gpu")),
    ("cpus", ValueError, "multiple devices", lambda: _session(_on_ipu_1, "cpu")),
    ("nothing", RuntimeError, "has no graphs", lambda: _session(lambda: None)),
    ("changed", (RuntimeError, PE), "", _after),
    (
        "relu_ twice",
        PE,
        "Inplacing ambiguity detected.",
        lambda: _session(lambda: [ops.relu_(x) for x in [f32(2)] * 2]),
    ),
    ("read and written", PE, "Inplacing ambiguity detected.", lambda: _session(_copied)),
    *(
        (
            method,
            ValueError,
            "Must be attached to device",
            lambda method=method: getattr(_session(), method)(),
        )
        for method in ("run", "run_with_outputs", "weights_to_host", "weights_from_host")
    ),
)
def test_sessions(case):
    case.check()


def test_float8_variables_take_no_numbers():
    ir = popxl.Ir()
    with ir.main_graph:
        w = popxl.variable(1.0, popxl.float8_143)
        ops.pow2scale_cast_from_fp8(w, popxl.constant(0), popxl.float16)
    with pytest.raises(TypeError):
        popxl.Session(ir).write_variable_data(w, 1.0)


def test_unwritable_files_stay_unchanged(tmp_path):
    np.zeros(3, np.float32).tofile(tmp_path / "file")
    ir = popxl.Ir()
    with ir.main_graph:
        w = popxl.variable(np.memmap(tmp_path / "file", np.float32, "r"))
        ops.add(w, w)
    session = popxl.Session(ir, weights_to_host_on_exit=False)
    with session, pytest.raises(Exception, match="read-only memmap"):
        session.weights_to_host()


@pytest.fixture(scope="module")
def program():
    """A session with a stream of each kind, a variable and a constant."""
    ir = popxl.Ir(2)
    ir.num_host_transfers = 2
    with ir.main_graph:
        x = popxl.h2d_stream((3,), popxl.float32, name="x")
        unused = popxl.h2d_stream((), popxl.float32, name="unused")
        y = popxl.d2h_stream((3,), popxl.float32, name="y")
        w = popxl.variable(np.ones(3, np.float32), name="w")
        each = popxl.variable(np.ones(3, np.float32), name="each", retrieval_mode="all_replicas")
        result = ops.host_load(x) + w + each
        ops.host_store(y, result)
        c = popxl.constant(1)
    with popxl.Session(ir, "ipu_hw") as session:
        yield session, {"x": x, "unused": unused, "y": y, "w": w, "each": each, "c": c, "t": result}


IN = np.zeros((2, 2, 3), np.float32)


def _outputs(shape, name="y"):
    return lambda s, n: s.run_with_outputs({n["x"]: IN}, {n[name]: np.zeros(shape, np.float32)})


@pytest.mark.parametrize(
    "use, error, words",
    [
        (lambda s, n: s.run(), ValueError, "Missing input"),
        (lambda s, n: s.run({n["x"]: IN, n["unused"]: IN}), ValueError, "Unexpected"),
        (lambda s, n: s.run({n["x"]: IN[:1]}), ValueError, "is not large enough"),
        (lambda s, n: s.run({n["x"]: np.zeros((2, 3, 3))}), ValueError, "is the wrong size"),
        (lambda s, n: s.run({n["x"]: np.zeros((2, 2, 4))}), ValueError, "Shape mismatch"),
        (lambda s, n: s.run_with_outputs({n["x"]: IN}), ValueError, "Missing output"),
        (lambda s, n: s.run_with_outputs({n["x"]: IN}, {}), ValueError, "output"),
        (_outputs((1, 2, 3)), ValueError, "is not large enough"),
        (_outputs((2, 1, 3)), ValueError, "is the wrong size"),
        (_outputs((2, 2, 2)), ValueError, "Shape mismatch"),
        (
            lambda s, n: s.get_tensor_data(n["t"]),
            TypeError,
            "is not of type Constant or Variable",
        ),
        (
            lambda s, n: s.get_tensors_data([n["w"], n["x"]]),
            TypeError,
            "is not of type Constant or Variable",
        ),
        (
            lambda s, n: s.write_variable_data(n["c"], 1),
            TypeError,
            "^Tensor t is not of type Variable",
        ),
        (
            lambda s, n: s.write_variable_data(n["w"], np.ones(3)),
            TypeError,
            "must match the equivalent type",
        ),
        (
            lambda s, n: s.write_variables_data({n["w"]: np.ones(4, np.float32)}),
            ValueError,
            "The shape of the input array",
        ),
        (
            lambda s, n: s.write_variable_data(n["each"], np.ones(3, np.float32)),
            NotImplementedError,
            "is not yet supported",
        ),
    ],
)
def test_uses_of_a_session(program, use, error, words):
    session, names = program
    with pytest.raises(error, match=words):
        use(session, names)
    assert session.is_attached
