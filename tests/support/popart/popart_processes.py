"""Trains with PopART in this process, alone or as one of several, and reports its results.

Run with `python -m tests.support.popart.popart_processes`, as instances of poprun.
"""

from __future__ import annotations

import numpy as np
import popart

from tensorflow_ipu.distributed import popdist
from tests.support.popart import popart_training as models
from tests.support.processes import instances

TOTAL = 4


def main() -> None:
    """Trains weights of two groups of replicas, and reports them."""
    popdist.init()
    count, index = popdist.getNumInstances(), popdist.getInstanceIndex()
    local = TOTAL // count
    options = popart.SessionOptions()
    options.enableDistributedReplicatedGraphs = True
    options.globalReplicationFactor, options.globalReplicaOffset = TOTAL, index * local
    group = popart.CommGroup(popart.CommGroupType.Orthogonal, 2)
    settings = popart.VariableSettings(group, popart.VariableRetrievalMode.AllReplicas)
    optimizer = popart.SGD({"defaultMomentum": (0.9, True)})
    of_all = models.samples(2, 2, TOTAL)
    with models.Trained(optimizer, 2, 2, local, options, settings=settings, groups=2) as trained:
        trained.data = np.ascontiguousarray(of_all[:, :, index * local : (index + 1) * local])
        trained.run(2)
        read = trained.read(w1=np.empty((TOTAL, 3, 4), np.float32))
        losses = trained.results["L1:0"].reshape(2, 2, local)
    instances.report(w1=read["w1"], losses=losses)


if __name__ == "__main__":
    main()
