"""Facts that processes learn of each other, from launchers' environments and from clusters."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tensorflow_ipu.distributed import instances

OMPI = {
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "2",
    "PMIX_NAMESPACE": "job",
}
PMI = {"PMI_SIZE": "4", "PMI_RANK": "2", "PMI_JOBID": "job"}
HOROVOD = {
    "HOROVOD_SIZE": "4",
    "HOROVOD_RANK": "2",
    "HOROVOD_LOCAL_SIZE": "4",
    "HOROVOD_LOCAL_RANK": "2",
    "HOROVOD_JOBID": "job",
}
POPRUN = {
    "POPDIST_NUM_INSTANCES": "4",
    "POPDIST_INSTANCE_INDEX": "2",
    "POPDIST_NUM_TOTAL_REPLICAS": "8",
    "POPDIST_INSTANCE_ADDRESSES": "a:1,a:2,b:1,b:2",
}


@pytest.mark.parametrize("variables", [OMPI, PMI, HOROVOD])
def test_mpi_processes_compute_equal_ports(variables):
    found = instances.of_mpi(variables)
    assert (found.count, found.index, found.local_count, found.local_index) == (4, 2, 4, 2)
    assert len(set(found.addresses)) == 4
    (rank,) = (name for name in variables if name.endswith("RANK") and "LOCAL" not in name)
    others = {instances.of_mpi({**variables, rank: str(r)}).addresses for r in range(4)}
    assert others == {found.addresses}
    (job,) = (name for name in variables if name.endswith(("NAMESPACE", "JOBID")))
    assert instances.of_mpi({**variables, job: "other"}).addresses != found.addresses


def test_processes_of_poprun_are_those_of_mpi_too():
    found = instances.of_mpi({**OMPI, **POPRUN})
    assert found == instances.of_poprun(POPRUN)
    assert (found.count, found.index, found.local_replicas) == (4, 2, 2)
    # Two are on each host.
    assert (found.local_count, found.local_index) == (2, 0)


@pytest.mark.parametrize("find", [instances.of_mpi, instances.of_poprun])
def test_without_a_launcher_there_is_one(find):
    assert find({}) == instances.Instances()


def test_one_process_of_mpi_has_no_address():
    found = instances.of_mpi({"PMI_SIZE": "1", "PMI_RANK": "0"})
    assert (found.count, found.addresses) == (1, ())


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"PMI_RANK": "4"}, "PMI_RANK must be less than PMI_SIZE=4. Received: 4"),
        ({"PMI_RANK": "two"}, "PMI_RANK must be a whole number. Received: 'two'"),
        ({"PMI_SIZE": "-1"}, "PMI_SIZE must be a whole number. Received: '-1'"),
    ],
)
def test_wrong_environments_are_refused(wrong, match):
    with pytest.raises(ValueError, match=match):
        instances.of_mpi({**PMI, **wrong})


def test_processes_of_mpi_on_several_hosts_need_mpi4py(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mpi4py", None)
    with pytest.raises(RuntimeError, match="4 processes .* on several hosts, .* mpi4py"):
        instances.of_mpi({**OMPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})


def _resolver(cluster, task_type, task_id):
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type=task_type, task_id=task_id
    )


def test_chief_of_a_cluster_comes_before_its_workers():
    cluster = {"worker": ["a:1", "b:1"], "chief": ["c:1"]}
    found = instances.of_cluster(_resolver(cluster, "worker", 1))
    assert (found.count, found.index) == (3, 2)
    assert found.addresses == ("c:1", "a:1", "b:1")
    assert found.task(0) == ("chief", 0) and found.task(2) == ("worker", 1)


def test_a_process_that_evaluates_is_alone():
    cluster = {"worker": ["a:1", "b:1"], "evaluator": ["c:1"]}
    assert instances.of_cluster(_resolver(cluster, "evaluator", 0)) == instances.Instances()


def test_process_that_is_none_of_workers_is_refused():
    with pytest.raises(ValueError, match="worker 2, is none of the workers.*Set `task`"):
        instances.of_cluster(_resolver({"worker": ["a:1", "b:1"]}, "worker", 2))
