"""The environment variables of launchers, and how an instance reads them."""

from __future__ import annotations

import dataclasses

import pytest

from tensorflow_ipu.distributed.launcher import environment
from tensorflow_ipu.distributed.launcher.environment import InstanceEnvironment

TWO = InstanceEnvironment(
    count=2, index=1, total_replicas=4, ipus_per_replica=2, addresses=("a:1", "b:2")
)


@pytest.mark.parametrize(
    "told",
    [TWO, dataclasses.replace(TWO, offline=True), InstanceEnvironment(1, 0, 3, 1, ())],
)
def test_what_is_told_is_what_is_read(told):
    assert environment.read(told.variables()) == told


def test_without_a_launcher_nothing_is_told():
    assert environment.read({"HOME": "/"}) is None


@pytest.mark.parametrize(
    "variable, value, words",
    [
        (environment.INDEX, "2", "must be less than POPDIST_NUM_INSTANCES=2; received 2"),
        (environment.INDEX, "-1", "must be a whole number from 0; received '-1'"),
        (environment.INDEX, "", "must be a whole number from 0; received ''"),
        (environment.COUNT, "²", "must be a whole number from 1"),
        (environment.COUNT, "0", "must be a whole number from 1; received '0'"),
        (environment.TOTAL_REPLICAS, "3", "must be a multiple of POPDIST_NUM_INSTANCES=2"),
        (environment.IPUS_PER_REPLICA, "0", "must be a whole number from 1"),
        (environment.ADDRESSES, "a:1", "a host:port for each of 2 instances; received 'a:1'"),
    ],
)
def test_contradictions_are_errors_that_name_the_variable(variable, value, words):
    with pytest.raises(ValueError, match=words) as error:
        environment.read({**TWO.variables(), variable: value})
    assert str(error.value).startswith(variable)
