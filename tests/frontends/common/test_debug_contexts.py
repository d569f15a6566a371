"""Files of debug information, of PopART and of PopXL."""

from __future__ import annotations

import json

import numpy as np
import popart
import popxl
import pytest
from popxl import ops


def written(path, make):
    """Returns the contexts that a function makes, with locations as (file, function, line)."""
    popart.initializePoplarDebugInfo(str(path), "json")
    make()
    popart.closePoplarDebugInfo()
    content = json.loads(path.read_text())
    table = content["stringTable"]
    for context in content["contexts"]:
        if "location" in context:
            place = context["location"]
            names = (table[place[key]] for key in ("fileName", "functionName"))
            context["location"] = (*names, place["lineNumber"])
    return content["contexts"]


def test_popxl_has_context_for_each_op_and_tensor(tmp_path):
    def make():
        ir = popxl.Ir()
        with ir.main_graph:
            a, b = (popxl.variable(np.ones(2, np.float32), name=name) for name in "ab")
            ops.add(a, b)

    found = written(tmp_path / "debug.json", make)
    assert [context["layer"] for context in found] == ["popartbuilder", *["popxl"] * 4]
    (op,) = (context for context in found if context.get("category") == "op")
    assert (op["api"], op["inputs"], op["outputs"]) == ("add", ["a", "b"], ["add_out"])
    assert op["location"] == (__file__, "make", make.__code__.co_firstlineno + 4)
    assert sum(context["category"] == "tensor" for context in found) == 3


def test_popart_has_contexts_of_calls_ops_and_program(tmp_path):
    def make():
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [1, 2, 4, 4], "x")
        weight = builder.addInitializedInputTensor(np.ones((2, 2, 1, 1), np.float32), "weight")
        y = builder.aiOnnx.conv([x, weight], debugContext="layer")
        device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
        flow = popart.DataFlow(1, [y])
        popart.InferenceSession(builder.getModelProto(), flow, device).prepareDevice()

    found = written(tmp_path / "debug.json", make)
    assert len(found) > 30
    by_id = {context["id"]: context for context in found}
    (op,) = (c for c in found if c["layer"] == "popart" and c["category"] == "op")
    node = by_id[op["parentId"]]
    assert (node["layer"], by_id[node["parentId"]]["layer"]) == ("onnx", "popartbuilder")
    assert {op["opType"], node["opType"], by_id[node["parentId"]]["api"]} == {"Conv"}
    assert op["location"][:2] == (__file__, "make")
    assert op["inputs"] == ["x", "weight"]
    calls = {c.get("api") for c in found if c["layer"] == "popartbuilder"}
    assert calls == {
        *("Builder", "getModelProto", "Conv", "addInputTensor", "addInitializedInputTensor")
    }


@pytest.mark.parametrize("outlines", [True, False])
def test_ops_that_share_code_are_calls(outlines, tmp_path):
    def make():
        builder = popart.Builder()
        x, y = builder.addInputTensor("FLOAT", [2, 2]), builder.addInputTensor("FLOAT", [3, 2])
        graphs = [builder.createSubgraphBuilder() for _ in "ab"]
        for graph in graphs:
            given = graph.addInputTensor("FLOAT", [2, 2])
            graph.addOutputTensor(graph.aiOnnx.relu([given]))
        outputs = [builder.aiGraphcore.call([x], 1, graph)[0] for graph in graphs]
        outputs += [builder.aiOnnx.matmul([z, x]) for z in (x, y, x)]
        options = popart.SessionOptions()
        options.enableOutlining = outlines
        device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
        flow = popart.DataFlow(1, outputs)
        popart.InferenceSession(builder.getModelProto(), flow, device, userOptions=options)

    found = written(tmp_path / "debug.json", make)
    by_id = {context["id"]: context for context in found}
    calls = [
        (by_id[context["parentId"]]["opType"], context["attributes"]["callee"])
        for context in found
        if "attributes" in context
    ]
    expected = ["call_subgraph(0)"] * 2 + ["call_subgraph(1)"] * 2
    types = ["Call", "Call", "MatMul", "MatMul"]
    assert calls == (list(zip(types, expected)) if outlines else [])


def test_user_information_is_written_at_destruction(tmp_path):
    def make():
        outer = popart.DebugInfo(popart.DebugContext("outer"), "mine")
        assert outer.setValue("size", "3")
        inner = popart.DebugInfo(popart.DebugContext(outer, "inner"), "other")
        del outer, inner

    inner, outer = written(tmp_path / "debug.json", make)
    assert (inner["name"], inner["layer"], inner["parentId"]) == (
        "outer/inner",
        "other",
        outer["id"],
    )
    assert (outer["name"], outer["size"]) == ("outer", "3")
    popart.closePoplarDebugInfo()
    with pytest.raises(popart.popart_exception, match="Unknown format"):
        popart.initializePoplarDebugInfo(str(tmp_path), "xml")
