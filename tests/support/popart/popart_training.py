"""Trains a model of two layers with PopART, and the same model with NumPy."""

from __future__ import annotations

import contextlib

import numpy as np
import popart

from tests.support.popart import popart_models

SHAPES = {"w1": (3, 4), "w2": (4, 2)}


def start(groups=1, dtype=np.float32):
    """Values of the weights at the start, for each group of replicas."""
    random = np.random.RandomState(0)
    made = {name: random.randn(groups, *shape).astype(dtype) for name, shape in SHAPES.items()}
    return made if groups > 1 else {name: value[0] for name, value in made.items()}


def samples(batches=1, micro=1, replicas=1, dtype=np.float32):
    """Inputs of a step."""
    shape = (batches, micro, replicas, 2, 3)
    return np.random.RandomState(1).randn(*shape).astype(dtype)


class Trained:
    """A session that trains the model of two layers."""

    def __init__(
        self,
        optimizer,
        batches=1,
        micro=1,
        replicas=1,
        options=None,
        anchors=(),
        settings=None,
        dtype=np.float32,
        stages=None,
        groups=1,
        annotate=lambda builder, ids: None,
    ):
        """Builds the model and prepares the session; `close` gives the device back.

        Args:
            stages: IPU of each layer, if they are on several.
            settings: which replicas share the weights.
            groups: how many values each weight has.
            annotate: takes the builder and the ids of its nodes.
        """
        self.data = samples(batches, micro, replicas, dtype)
        builder = popart.Builder()
        name = popart.TensorInfo(self.data).data_type()
        x = builder.addInputTensor(name, [2, 3], "x")
        given = () if settings is None else (settings,)
        weights = start(groups, dtype)
        for weight, value in weights.items():
            builder.addInitializedInputTensor(value, *given, weight)
        ipus = [0, 0] if stages is None else stages

        def place(layer):
            return contextlib.nullcontext() if stages is None else builder.virtualGraph(ipus[layer])

        with place(0):
            h = builder.aiOnnx.tanh([builder.aiOnnx.matmul([x, "w1"])])
        with place(1):
            y = builder.aiOnnx.matmul([h, "w2"])
            loss = builder.aiGraphcore.l1loss([y], 0.1, popart.ReductionType.Sum)
        annotate(builder, {"h": h, "y": y, "loss": loss})
        self.ids = {"x": x, "h": h, "y": y, "loss": loss}
        options = options or popart.SessionOptions()
        if micro > 1:
            options.enableGradientAccumulation, options.accumulationFactor = True, micro
        options.enableReplicatedGraphs, options.replicatedGraphCount = replicas > 1, replicas
        self.device = popart_models.device(replicas * (max(ipus) + 1))
        try:
            self.session = popart.TrainingSession(
                builder.getModelProto(),
                popart.DataFlow(batches, dict(anchors) or {loss: popart.AnchorReturnType("All")}),
                loss,
                optimizer,
                self.device,
                userOptions=options,
            )
            self.session.prepareDevice()
            self.session.weightsFromHost()
        except BaseException:
            self.close()
            raise
        self.results = self.session.initAnchorArrays()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Gives the device back."""
        self.device.detach()

    def run(self, steps=1):
        """Runs steps."""
        for _ in range(steps):
            self.session.run(popart.PyStepIO({"x": self.data}, self.results))
        return self

    def read(self, **arrays):
        """Returns values of weights, or reads them into arrays by name."""
        wanted = arrays or {name: np.empty_like(value) for name, value in start().items()}
        self.session.weightsToHost()
        self.session.readWeights(popart.PyWeightsIO(wanted))
        return wanted

    @property
    def workload(self):
        """Returns the planned workload."""
        return self.session._program.executable.workload


def gradients(weights, data):
    """Gradients of the loss of one micro-batch, by formula."""
    hidden = np.tanh(data @ weights["w1"])
    of_result = 0.1 * np.sign(hidden @ weights["w2"])
    of_hidden = of_result @ weights["w2"].T * (1 - hidden**2)
    return {"w1": data.T @ of_hidden, "w2": hidden.T @ of_result}


def summed(weights, batch):
    """The sum of gradients of a batch of micro-batches and replicas."""
    found = [gradients(weights, x) for x in batch.reshape(-1, 2, 3)]
    return {name: sum(g[name] for g in found) for name in weights}
