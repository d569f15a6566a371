"""Trainings by workers that each have a program of their own, and their results in this one.

Run with `python -m tests.support.processes.worker_cases FOLDER WAY`, as instances of poprun. WAY
names how the workers find each other instead: a cluster resolver (`cluster`) or an environment like
that of `mpirun` (`OMPI`, `PMI`). With the way `replicas`, one process has a replica for each
worker.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.horovod.ipu_horovod_strategy import IPUHorovodStrategy
from tensorflow.python.ipu.horovod.ipu_multi_replica_strategy import IPUMultiReplicaStrategy
from tensorflow.python.ipu.ipu_multi_worker_strategy import IPUMultiWorkerStrategy

from tensorflow_ipu.distributed.launcher import environment
from tests.support.models import pipelines
from tests.support.processes import instances, trainings

tf1 = tf.compat.v1


def start(way: str) -> Any:
    """Lets this process be a worker, and returns its `Place`."""
    me = environment.read()
    assert me is not None
    if way == "replicas":
        return trainings.Place(IPUMultiReplicaStrategy(), 1, 0, me.total_replicas)
    for name in me.variables():
        os.environ.pop(name, None)
    here = (me.count, me.index, me.total_replicas // me.count)
    if way == "cluster":
        cluster = {"worker": list(me.addresses)}
        task = {"type": "worker", "index": me.index}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        strategy = IPUMultiWorkerStrategy(resolver)
        server = tf.distribute.Server(
            resolver.cluster_spec(),
            job_name=resolver.task_type,
            task_index=resolver.task_id,
            config=strategy.update_config_proto(tf1.ConfigProto()),
        )
        return trainings.Place(strategy, *here, target=server.target)
    os.environ.update(_mpi(way, me))
    return trainings.Place(IPUHorovodStrategy(), *here)


def _mpi(way: str, me: environment.InstanceEnvironment) -> dict[str, str]:
    # The job has a name of its own, by which its processes choose their ports.
    job = ".".join(me.addresses)
    if way == "PMI":
        return {"PMI_SIZE": str(me.count), "PMI_RANK": str(me.index), "PMI_JOBID": job}
    return {
        "OMPI_COMM_WORLD_SIZE": str(me.count),
        "OMPI_COMM_WORLD_RANK": str(me.index),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(me.count),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(me.index),
        "PMIX_NAMESPACE": job,
    }


def _averaged_by_pairs(place: trainings.Place) -> Any:
    """Returns a function that makes an optimizer averaging over two replicas and adding pairs."""
    if place.count > 1:
        return trainings.averaged(trainings.momentum)
    # One process adds up over all replicas.
    return lambda: ipu.optimizers.MapGradientOptimizer(
        trainings.momentum(), lambda gradient, _: gradient / 2.0
    )


def variables(place: trainings.Place) -> trainings.Trained:
    """Returns the values workers read of variables counted by each, and of a metric."""
    replicas = trainings.total(place)
    own = [place.index] if place.count > 1 else range(replicas)
    place.configure()
    with tf.Graph().as_default(), place.strategy.scope():
        ranks = tf.constant([float(rank) for rank in own])
        synchronization = tf.VariableSynchronization.ON_READ
        counted = tf.Variable(
            0.0,
            trainable=False,
            synchronization=synchronization,
            aggregation=tf.VariableAggregation.SUM,
        )
        with tf.device("/device:CPU:0"):
            mean, update = place.strategy.run(lambda: tf1.metrics.mean(ranks))
            count = counted.assign_add(float(len(own)))
        read = counted.read_value()
        with place.session() as session:
            session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
            session.run([update, count])
            return {
                "metric": session.run(mean),
                "metric of this instance": session.run(update),
                "counted": session.run(read),
            }


def variables_on_host(place: trainings.Place) -> trainings.Trained:
    """Trains with variables on the host, where gradients are added up and applied.

    One process does it without any IPU.
    """
    steps, count = trainings.STEPS, trainings.total(place)
    x, labels = pipelines.data(steps * count)
    optimizer = trainings.momentum()
    with tf.Graph().as_default(), _host_strategy(place).scope() as strategy:
        tf1.set_random_seed(1 + place.index)
        start = tf1.constant_initializer(0.25) if place.count == 1 else _own_start(place)
        weight = tf1.get_variable(
            "w", [pipelines.FEATURES, pipelines.CLASSES], initializer=start, use_resource=True
        )
        places = [
            tf1.placeholder(each.dtype, [place.replicas * pipelines.BATCH, *each.shape[1:]])
            for each in (x, labels)
        ]

        def gradient(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            # Losses are means over the batch of a worker.
            loss = pipelines.loss_of(tf.matmul(x, weight), labels)
            return tf.gradients(loss * float(place.replicas), weight)[0]

        def compiled() -> tf.Tensor:
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                return ipu.ipu_compiler.compile(gradient, places)[0]

        place.configure()
        found = gradient(*places) if place.count == 1 else strategy.run(compiled)
        with tf.device("/device:CPU:0"):
            step = strategy.run(lambda: optimizer.apply_gradients([(found, weight)]))
        with place.session() as session:
            session.run(tf1.global_variables_initializer())
            own = [place.own(each, pipelines.BATCH) for each in (x, labels)]
            for batch in zip(*[np.split(each, steps) for each in own]):
                session.run(step, dict(zip(places, batch)))
            return {f"rounded {v.op.name}": session.run(v) for v in tf1.global_variables()}


def _own_start(place: trainings.Place) -> Any:
    """Returns an initializer that is the common one in the first instance only."""
    return tf1.constant_initializer(0.25 + place.index)


def _host_strategy(place: trainings.Place) -> Any:
    """Returns a strategy like the place's, with variables on the host."""
    if place.count == 1:
        return tf.distribute.get_strategy()
    if isinstance(place.strategy, IPUHorovodStrategy):
        return IPUHorovodStrategy(variables_on_host=True)
    return IPUMultiWorkerStrategy(place.strategy.cluster_resolver, variables_on_host=True)


def main(folder: str, way: str, *only: str) -> None:
    """Runs the trainings.

    Args:
        folder: for checkpoints.
        way: by what the workers find each other.
        *only: names of the trainings to run; all for one replica each if none.
    """
    place = start(way)
    cases = {
        "variables": lambda: variables(place),
        "variables on the host": lambda: variables_on_host(place),
        "loop": lambda: trainings.graph_loop(place),
        "accumulation": lambda: trainings.graph_loop(place, trainings.accumulated),
        "pipeline": lambda: trainings.graph_pipeline(place),
        "IPUEstimator": lambda: trainings.estimator(place, os.path.join(folder, "a"), False),
        "IPUPipelineEstimator": lambda: trainings.pipeline_estimator(
            place, os.path.join(folder, "b"), trainings.momentum
        ),
        "averaged by pairs": lambda: trainings.graph_loop(place, _averaged_by_pairs(place)),
    }
    for name, case in cases.items():
        if name in only or (not only and name != "averaged by pairs"):
            instances.report(case=name, **case())


if __name__ == "__main__":
    main(*sys.argv[1:])
