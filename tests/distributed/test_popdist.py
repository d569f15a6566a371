"""Facts that a program without a launcher learns from `popdist`."""

from __future__ import annotations

import popdist
import popdist.tensorflow
import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tensorflow_ipu.configs.machine import Machine


def test_there_is_one_instance_with_one_replica():
    popdist.init()
    assert popdist.isPopdistEnvSet() is False
    assert (popdist.getNumInstances(), popdist.getInstanceIndex()) == (1, 0)
    assert (popdist.getNumTotalReplicas(), popdist.getNumLocalReplicas()) == (1, 1)
    assert (popdist.getReplicaIndexOffset(), popdist.getNumIpusPerReplica()) == (0, 1)
    popdist.checkNumIpusPerReplica(4)
    popdist.finalizeDistributed()


def test_import_loads_no_tensorflow(run_python):
    run_python(
        "import sys, popdist\n"
        "assert popdist.getNumInstances() == 1\n"
        "assert 'tensorflow' not in sys.modules\n"
        "assert 'set_ipu_config' in dir(popdist.tensorflow)\n"
    )


@pytest.mark.parametrize(("ipus", "size"), [(None, 1), (2, 2), (16, 16)])
def test_the_device_id_has_the_ipus_asked_for(ipus, size):
    entry = Machine().by_id(popdist.getDeviceId(ipus))
    assert entry is not None and len(entry.ipus) == size


@pytest.mark.parametrize("ipus", [0, 3, 32, "2"])
def test_a_size_that_no_device_has_is_refused(ipus):
    with pytest.raises(ValueError, match="num_ipus_per_replica"):
        popdist.getDeviceId(ipus)


@pytest.mark.parametrize("ipus", [None, 4])
def test_the_configuration_selects_the_ipus_of_a_replica(ipus):
    config = ipu.config.IPUConfig()
    assert popdist.tensorflow.set_ipu_config(config, ipus_per_replica=ipus) is config
    assert config.auto_select_ipus == (ipus or 1)
    # One instance is no distribution, of which the simulated machine would warn.
    assert config.experimental.multi_replica_distribution.process_count == 0
    config.configure_ipu_system()


def test_what_is_no_configuration_is_refused():
    config = ipu.config.IPUConfig()
    config.select_ipus = [3]
    popdist.tensorflow.set_ipu_config(config, 2, configure_device=False)
    assert config.select_ipus == [3]
    with pytest.raises(TypeError, match="config must be an IPUConfig"):
        popdist.tensorflow.set_ipu_config({})
    with pytest.raises(ValueError, match="ipus_per_replica"):
        popdist.tensorflow.set_ipu_config(config, 0)


def test_code_for_certain_instances_runs_there_only():
    done = []

    @popdist.execute_on_instances({0})
    def here(number):
        done.append(number)
        return number

    @popdist.execute_on_instances({1, 2})
    def elsewhere():
        done.append("never")

    assert here(3) == 3 and elsewhere() is None and done == [3]
    assert here.__name__ == "here"
    with popdist.execute_on_instances([0]):
        done.append(4)
    with (
        pytest.raises(RuntimeError, match=r"for the instances \[1\], and this is instance 0"),
        popdist.execute_on_instances([1]),
    ):
        done.append("never")
    assert done == [3, 4]


@pytest.fixture
def launched(monkeypatch):
    """Returns a function that makes this process one of several for `popdist`."""

    def launch(**changed):
        told = {
            "POPDIST_NUM_INSTANCES": "4",
            "POPDIST_INSTANCE_INDEX": "3",
            "POPDIST_NUM_TOTAL_REPLICAS": "8",
            "POPDIST_NUM_IPUS_PER_REPLICA": "2",
            "POPDIST_INSTANCE_ADDRESSES": "a:1,a:2,b:1,b:2",
        }
        for name, value in {**told, **changed}.items():
            monkeypatch.setenv(name, value)

    return launch


def test_an_instance_learns_which_one_it_is(launched):
    launched()
    assert popdist.isPopdistEnvSet() is True
    assert (popdist.getNumInstances(), popdist.getInstanceIndex()) == (4, 3)
    assert (popdist.getNumTotalReplicas(), popdist.getNumLocalReplicas()) == (8, 2)
    assert (popdist.getReplicaIndexOffset(), popdist.getNumIpusPerReplica()) == (6, 2)
    popdist.checkNumIpusPerReplica(2)
    with pytest.raises(ValueError, match=r"uses 4 IPUs .* told 2. Start it with --ipus-per-repl"):
        popdist.checkNumIpusPerReplica(4)


def test_instances_on_one_host_have_own_devices(launched):
    ids = []
    for index in "0123":
        launched(POPDIST_INSTANCE_INDEX=index, POPDIST_INSTANCE_ADDRESSES="a:1,a:2,a:3,a:4")
        ids.append(popdist.getDeviceId())
    assert len(set(ids)) == 4
    assert {len(Machine().by_id(found).ipus) for found in ids} == {4}


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"POPDIST_NUM_INSTANCES": "two"}, "POPDIST_NUM_INSTANCES must be a whole number.*'two'"),
        ({"POPDIST_INSTANCE_INDEX": "4"}, "POPDIST_INSTANCE_INDEX must be less than .*=4"),
        ({"POPDIST_INSTANCE_ADDRESSES": "a:1"}, "a host:port for each of 4 instances.*'a:1'"),
    ],
)
def test_an_environment_that_contradicts_itself_is_an_error(launched, wrong, match):
    launched(**wrong)
    with pytest.raises(ValueError, match=match):
        popdist.init()


def test_joining_after_tensorflow_began_is_refused(launched):
    launched()
    tf.constant(1).numpy()
    with pytest.raises(RuntimeError, match=r"has begun to run operations.* Call popdist.init\(\)"):
        popdist.init()


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match="has no popdist.nothing. Of popdist it has: popdist"):
        popdist.nothing  # noqa: B018
    with pytest.raises(ImportError, match="popdist.poptorch: it was for PyTorch"):
        exec("import popdist.poptorch")
    with pytest.raises(ImportError, match="has no popdist.nothing"):
        exec("import popdist.nothing")
