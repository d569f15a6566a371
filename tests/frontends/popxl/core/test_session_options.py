"""Options of `ir._pb_ir.getSessionOptions()`: their effects, and options without effect."""

from __future__ import annotations

import logging

import numpy as np
import popxl
import pytest
from popxl import ops

from tests.support.popxl import popxl_programs


def options_of(ir):
    return ir._pb_ir.getSessionOptions()


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("numIOTiles", 32, {"io_tiles": 32}),
        ("partialsTypeMatMuls", "half", {"matmul_partials": "float16"}),
        ("partialsTypeMatMuls", "float", {"matmul_partials": "float32"}),
        ("convolutionOptions", {"partialsType": "half"}, {"convolution_partials": "float16"}),
        ("matmulOptions", {"availableMemoryProportion": "0.2"}, {"matmul_proportion": 0.2}),
        ("enableOutlining", False, {"outlining": False}),
        ("enablePrefetchDatastreams", False, {"prefetch": False}),
        ("enableStochasticRounding", True, {}),
        ("enableEngineCaching", True, {}),
    ],
)
def test_options_say_what_a_program_is_planned_for(option, value, expected, caplog):
    options = options_of(popxl.Ir())
    assert options.planned() == {}
    setattr(options, option, value)
    assert options.planned() == expected
    assert not caplog.records


def test_each_ir_has_own_options_and_warns_once(caplog):
    first, second = popxl.Ir(), popxl.Ir()
    options_of(first).numIOTiles = 4
    options_of(first).convolutionOptions["partialsType"] = "half"
    options_of(first).someOptions["key"] = 1
    assert options_of(first) is first.session_options
    assert options_of(second).planned() == {}
    with caplog.at_level(logging.WARNING):
        for ir in (first, second):
            options_of(ir).inventedOption = 3
    assert options_of(first).inventedOption == 3
    assert [record.getMessage() for record in caplog.records] == [
        "The session option inventedOption has no effect here: it is not known."
    ]
    with pytest.raises(AttributeError, match="'otherOption' is not set"):
        _ = options_of(first).otherOption


def test_defaults_are_those_of_popart_with_explicit_graphs():
    import popart

    own = {
        "virtualGraphMode": popart.VirtualGraphMode.Manual,
        "enableVariablesCaching": False,
        **dict.fromkeys(
            ["useHostCopyOps", "aliasZeroCopy", "enableExplicitMainLoops", "decomposeGradSum"], True
        ),
        **dict.fromkeys(["explicitRecomputation", "enableInplaceAmbiguityChecking"], True),
    }
    options, reference = options_of(popxl.Ir()), popart.SessionOptions()
    for name, value in vars(options).items():
        if name in own or hasattr(reference, name):
            assert value == own.get(name, getattr(reference, name, None)), name
    assert options.changed() == {}
    options.enableExplicitIR(False)
    assert set(options.changed()) == {
        *("useHostCopyOps", "enableExplicitMainLoops", "explicitRecomputation")
    }


def test_options_with_fields_are_read_and_warned_of(caplog):
    import popart

    ir = popxl.Ir()
    options, reference = options_of(ir), popart.SessionOptions()
    for name in (
        *("accumulateOuterFragmentSettings", "automaticLossScalingSettings"),
        *("batchSerializationSettings", "executionPhaseSettings", "experimentalSettings"),
        *("replicatedCollectivesSettings", "accumulatorTensorLocationSettings"),
        *("activationTensorLocationSettings", "optimizerStateTensorLocationSettings"),
        *("weightTensorLocationSettings", "defaultPrefetchBufferingDepth"),
    ):
        assert getattr(options, name) == getattr(reference, name)
    assert options.changed() == {} and options.getGlobalReplicationFactor() == 1
    options.executionPhaseSettings.phases = 2
    location = options.weightTensorLocationSettings.location
    location.storage = popart.TensorStorage.OffChip
    assert options_of(popxl.Ir()).executionPhaseSettings.phases == 0
    with ir.main_graph:
        popxl.variable(1.0) + 1
    with caplog.at_level(logging.WARNING):
        popxl.Session(ir, "ipu_model")
    assert {record.getMessage().split()[3] for record in caplog.records} == {
        *("executionPhaseSettings", "weightTensorLocationSettings")
    }


def test_environment_sets_the_cache_of_new_irs(monkeypatch, tmp_path):
    monkeypatch.setenv("POPXL_CACHE_DIR", str(tmp_path))
    options = options_of(popxl.Ir())
    assert (options.enableEngineCaching, options.cachePath) == (True, str(tmp_path))


@pytest.mark.parametrize(
    ("option", "value", "phrase"),
    [
        ("numIOTiles", -1, "numIOTiles must be a number of tiles"),
        ("partialsTypeMatMuls", "double", "must be one of half, float. Received: 'double'"),
    ],
)
def test_wrong_values_are_refused(option, value, phrase):
    options = options_of(popxl.Ir())
    setattr(options, option, value)
    with pytest.raises(ValueError, match=phrase):
        options.planned()


def test_check_for_ambiguous_order_can_be_left_out():
    ir = popxl.Ir()
    options_of(ir).enableInplaceAmbiguityChecking = False
    with ir.main_graph:
        a = popxl.variable(np.array([-1.0, 2.0], np.float32))
        ops.relu_(a)
        ops.relu_(a)
    with popxl.Session(ir, "ipu_hw") as session:
        session.run()
    np.testing.assert_array_equal(a.data, [0, 2])


def test_stochastic_rounding_rounds_either_way():
    x = np.full(2000, 1 + 2**-12, np.float32)

    def build(x):
        popxl.gir().session_options.enableStochasticRounding = True
        return {"y": ops.cast(ops.cast(x, popxl.float16) * 1.0, popxl.float32)}

    found = popxl_programs.run(build, [x])["y"]
    assert set(np.unique(found)) == {1.0, 1 + 2.0**-10}
    # Each is rounded up with probability 1/4: the mean is the number itself.
    assert found.mean() == pytest.approx(x.mean(), abs=6 * 2**-10 * np.sqrt(3 / 16 / x.size))
