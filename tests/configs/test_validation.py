"""Every check of a whole configuration, alone."""

from __future__ import annotations

import pytest
from tensorflow.python.framework import errors

from tensorflow_ipu.configs import validation
from tensorflow_ipu.configs.enums import DeviceConnectionType, ExecutionProfileType
from tensorflow_ipu.configs.ipu_config import IPUConfig

GROUP = "norms.experimental.distributed_batch_norm_replica_group_size"
INDEX = "experimental.multi_replica_distribution.process_index"
COUNT = "experimental.multi_replica_distribution.process_count"


def config_with(settings):
    config = IPUConfig()
    for name, value in settings.items():
        *parents, leaf = name.split(".")
        node = config
        for parent in parents:
            node = getattr(node, parent)
        setattr(node, leaf, value)
    return config


@pytest.mark.parametrize(
    ("settings", "on_model", "error", "message"),
    [
        (
            {"auto_select_ipus": 1, "select_ipus": [1]},
            False,
            Exception,
            "Only one of `auto_select_ipus` and `select_ipus` can be set.",
        ),
        ({"auto_select_ipus": 1, "select_ipus": 0}, False, Exception, "Only one of"),
        ({"select_ipus": [3, 4, 3]}, False, ValueError, "must be unique"),
        ({"select_ipus": 0}, True, Exception, "can only be specified with `auto_select_ipus`"),
        ({INDEX: 2, COUNT: 2}, False, ValueError, "must be in the range"),
        ({INDEX: -1, COUNT: 2}, False, ValueError, "must be in the range"),
        ({INDEX: 0, COUNT: -1}, False, ValueError, "must be in the range"),
        ({INDEX: 1, COUNT: 2}, True, Exception, "not supported on the IPU model"),
        ({GROUP: 0}, False, ValueError, "must be at least 1: .*; received 0"),
        (
            {GROUP: 2, "io_tiles.num_io_tiles": 2},
            False,
            ValueError,
            f"{GROUP} is not supported with I/O",
        ),
        (
            {"io_tiles.place_ops_on_io_tiles": True},
            False,
            ValueError,
            "Cannot place ops on I/O tiles when io_tiles.num_io_tiles == 0",
        ),
        (
            {"io_tiles.num_io_tiles": -1},
            False,
            errors.InvalidArgumentError,
            "invalid number of IO tiles",
        ),
        (
            {"io_tiles.num_io_tiles": 193},
            False,
            errors.InvalidArgumentError,
            "invalid number of IO tiles",
        ),
        (
            {"device_connection.type": DeviceConnectionType.NEVER},
            False,
            ValueError,
            "device_connection.version must be set when",
        ),
        (
            {"device_connection.type": DeviceConnectionType.PRE_COMPILE},
            False,
            ValueError,
            "device_connection.version must be set when",
        ),
        (
            {"device_connection.version": "ipu9"},
            False,
            ValueError,
            "device_connection.version: Unknown IPU chip 'ipu9'",
        ),
        ({"ipu_model.version": ""}, True, ValueError, "ipu_model.version must be set"),
        ({"ipu_model.version": "ipu9"}, True, ValueError, "ipu_model.version: Unknown IPU chip"),
        (
            {"_profiling.profiling": True, "_profiling.enable_ipu_events": True},
            False,
            Exception,
            "cannot be used together",
        ),
        (
            {"_profiling.profile_execution": ExecutionProfileType.IPU_PROFILE},
            False,
            Exception,
            "needs `profiling`",
        ),
    ],
)
def test_contradictory_options_are_refused(settings, on_model, error, message):
    with pytest.raises(error, match=message):
        validation.check(config_with(settings), on_model)


@pytest.mark.parametrize(
    ("settings", "on_model"),
    [
        ({}, False),
        ({}, True),
        ({"ipu_model.version": ""}, False),
        ({INDEX: 1, COUNT: 2}, False),
        ({GROUP: 4}, False),
        ({"io_tiles.num_io_tiles": 192, "io_tiles.place_ops_on_io_tiles": True}, False),
        (
            {
                "device_connection.type": DeviceConnectionType.NEVER,
                "device_connection.version": "ipu1",
            },
            False,
        ),
        ({"device_connection.type": DeviceConnectionType.ON_DEMAND}, False),
        (
            {
                "_profiling.profiling": True,
                "_profiling.profile_execution": ExecutionProfileType.TILE_PROFILE,
            },
            False,
        ),
    ],
)
def test_consistent_options_are_accepted(settings, on_model):
    validation.check(config_with(settings), on_model)
