"""Names and values of library options."""

from __future__ import annotations

import pytest
from tensorflow.python.framework import errors

from tensorflow_ipu.configs import poplar_options
from tensorflow_ipu.configs.ipu_config import IPUConfig


def config_with(dictionary, options):
    config = IPUConfig()
    node = config
    *parents, leaf = dictionary.split(".")
    for parent in parents:
        node = getattr(node, parent)
    setattr(node, leaf, options)
    return config


@pytest.mark.parametrize(
    ("dictionary", "options"),
    [
        (
            "compilation_poplar_options",
            {
                "debug.instrument": "true",
                "debug.allowOutOfMemory": "true",
                "target.deterministicWorkers": "portable",
                "opt.maxCompilationThreads": "3",
            },
        ),
        (
            "convolutions.poplar_options",
            {"availableMemoryProportion": "0.1", "partialsType": "half"},
        ),
        ("matmuls.poplar_options", {"availableMemoryProportion": "1", "partialsType": "float"}),
        ("pooling.poplar_options", {"poolUseIntrospectiveMapping": "false"}),
        ("slices.poplar_options", {"availableMemoryProportion": "0"}),
        ("gcl_poplar_options", {"method": "auto"}),
    ],
)
def test_known_options_are_accepted(dictionary, options):
    poplar_options.check(config_with(dictionary, options))


@pytest.mark.parametrize(
    ("dictionary", "options", "message"),
    [
        (
            "matmuls.poplar_options",
            {"availableMemoryProportions": "0.1"},
            "Unrecognised option 'availableMemoryProportions' in matmuls.poplar_options. "
            "Did you mean 'availableMemoryProportion'",
        ),
        ("pooling.poplar_options", {"x": "0.1"}, "Unrecognised option 'x'"),
        ("slices.poplar_options", {"method": "0.1"}, "Unrecognised option 'method'"),
        ("gcl_poplar_options", {"methods": "auto"}, "Did you mean 'method'"),
        (
            "compilation_poplar_options",
            {"debgu.instrument": "true"},
            "Did you mean 'debug.instrument'",
        ),
        (
            "compilation_poplar_options",
            {"target.deterministicWorkers": "yes"},
            "takes true or false or portable; received 'yes'",
        ),
        ("convolutions.poplar_options", {"partialsType": "double"}, "takes half or float"),
        (
            "convolutions.poplar_options",
            {"availableMemoryProportion": "1.5"},
            "number in the range 0.0 to 1.0",
        ),
        ("convolutions.poplar_options", {"availableMemoryProportion": "0,5"}, "received '0,5'"),
    ],
)
def test_unknown_options_and_values_are_refused(dictionary, options, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        poplar_options.check(config_with(dictionary, options))
