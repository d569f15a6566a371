"""Trainings by one program on the replicas of all instances, and their results in this one.

Run with `python -m tests.support.processes.instance_cases FOLDER`, as instances of poprun.
"""

from __future__ import annotations

import os
import sys

from tensorflow.python import ipu
from tensorflow.python.ipu.horovod.ipu_multi_replica_strategy import IPUMultiReplicaStrategy

from tensorflow_ipu.distributed.launcher import environment
from tests.support.processes import instances, trainings


def main(folder: str, *only: str) -> None:
    """Runs the trainings.

    Args:
        folder: for checkpoints.
        *only: names of those to run; all if none.
    """
    me = environment.read()
    assert me is not None
    here = (me.count, me.index, me.total_replicas // me.count)
    program = trainings.Place(IPUMultiReplicaStrategy(), *here)
    keras = trainings.Place(ipu.distributed.popdist_strategy.PopDistStrategy(), *here)
    unreduced = trainings.Place(
        IPUMultiReplicaStrategy(add_ipu_cross_replica_reductions=False), *here
    )
    averaged = trainings.averaged
    momentum = trainings.momentum
    cases = {
        "graph loop": lambda: trainings.graph_loop(program),
        "graph loop, averaged": lambda: trainings.graph_loop(unreduced, averaged(momentum)),
        "graph loop, sharded state": lambda: trainings.graph_loop(program, trainings.sharded),
        "graph pipeline": lambda: trainings.graph_pipeline(program, averaged(momentum)),
        "graph pipeline, sharded state": lambda: trainings.graph_pipeline(
            program, averaged(momentum), **trainings.SHARDED
        ),
        "Keras": lambda: trainings.keras_fit(keras),
        "Keras pipeline": lambda: trainings.keras_pipeline_fit(keras),
        "Keras pipeline, sharded state": lambda: trainings.keras_pipeline_fit(
            keras, **trainings.SHARDED
        ),
        "IPUEstimator": lambda: trainings.estimator(program, os.path.join(folder, "a")),
        "IPUPipelineEstimator": lambda: trainings.pipeline_estimator(
            program, os.path.join(folder, "b"), averaged(momentum)
        ),
    }
    for name, case in cases.items():
        if not only or name in only:
            instances.report(case=name, **case())


if __name__ == "__main__":
    main(*sys.argv[1:])
