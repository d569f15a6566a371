"""What a program that was started without a launcher learns from `popdist`."""

from __future__ import annotations

import popdist
import popdist.tensorflow
import pytest
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


@pytest.mark.parametrize("variable", ["POPDIST_NUM_INSTANCES", "OMPI_COMM_WORLD_SIZE"])
def test_several_processes_are_an_error(monkeypatch, variable):
    monkeypatch.setenv(variable, "2")
    with pytest.raises(NotImplementedError, match=f"one process, but .*{variable}=2"):
        popdist.init()
    with pytest.raises(NotImplementedError, match="without a launcher"):
        ipu.horovod.init()
    monkeypatch.setenv(variable, "1")
    popdist.init()


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match="has no popdist.nothing. Of popdist it has: popdist"):
        popdist.nothing  # noqa: B018
    with pytest.raises(ImportError, match="popdist.poptorch: it was for PyTorch"):
        exec("import popdist.poptorch")
    with pytest.raises(ImportError, match="has no popdist.nothing"):
        exec("import popdist.nothing")
