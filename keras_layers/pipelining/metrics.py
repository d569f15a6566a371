"""Reads metrics that layers add in the stage that updates them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from tensorflow_ipu.keras_layers.pipelining.layer_calls import ModelCalls


class LayerMetrics:
    """Takes results of `Layer.add_metric` to the stage that reports them.

    The variables of such a metric are on the IPU of its layer, and the last stage may be on
    another one.

    Attributes:
        adding: Names of the layers that have such metrics.
    """

    def __init__(self, calls: ModelCalls) -> None:
        """Remembers the layers of each stage.

        Args:
            calls: the calls of the model.
        """
        self.adding: list[str] = []
        self._layers: list[list[Any]] = [[] for _ in range(calls.stages)]
        for call in calls.calls:
            if call.layer is not None:
                self._layers[call.stage].extend(call.layer._flatten_layers())
        self._taken: dict[int, Any] = {}

    def take(self, stage: int) -> list[Any]:
        """Returns the results of the metrics of a stage that has just been built.

        Args:
            stage: the stage.
        """
        self.adding += [layer.name for layer in self._layers[stage] if layer._metrics]
        found = {id(metric): metric for layer in self._layers[stage] for metric in layer._metrics}
        new = {key: metric for key, metric in found.items() if key not in self._taken}
        self._taken.update(new)
        return [metric.result() for metric in new.values()]

    @contextlib.contextmanager
    def reported(self, results: Sequence[Any]) -> Iterator[None]:
        """Lets the metrics have the results that were taken, in their order.

        Args:
            results: what `take` returned for all stages, passed on.

        Yields:
            Nothing.
        """
        with contextlib.ExitStack() as stack:
            for metric, result in zip(self._taken.values(), results):
                stack.enter_context(_with_result(metric, result))
            yield


@contextlib.contextmanager
def _with_result(metric: Any, result: Any) -> Iterator[None]:
    # Metrics have `result` as an attribute each, which wraps the method of their class.
    original = vars(metric)["result"]
    vars(metric)["result"] = lambda: result
    try:
        yield
    finally:
        vars(metric)["result"] = original
