"""Base class of `IPUEstimator` and `IPUPipelineEstimator`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tensorflow_ipu.configs.short_repr import shows
from tensorflow_ipu.estimators import arguments, prediction, stock_overrides
from tensorflow_ipu.estimators.prediction import PredictionProgram

__all__ = ["IPUEstimatorBase", "PredictionProgram"]


class IPUEstimatorBase(stock_overrides.ProgramEstimator):
    """An estimator whose sessions launch programs on an IPU device.

    Sessions, checkpoints, summaries, warm start and export are those of stock `Estimator`. It asks
    `_get_features_and_labels_from_input_fn` for the input, which is a `Batches` here, and passes
    that to `_call_model_fn`, which builds the program around the user's model function.

    A subclass says what the programs are, with the methods below; they are called in the graph of
    the session, outside device scopes. Everything that they put on the host belongs under
    `with self._on_host():`, else TensorFlow may place it on the IPU.

    * `_training_program(batches, config)` returns a stock `EstimatorSpec` of mode TRAIN: `train_op`
      does one run, without `global_step`, which this class advances by `iterations_per_loop` after
      it; `loss` is a scalar.
    * `_evaluation_program(batches, config)` returns a stock `EstimatorSpec` of mode EVAL: `loss`
      and `eval_metric_ops` (pairs of value and update op) on the host, updated once in a run.
    * `_prediction_program(batches, config)` returns a `PredictionProgram`.
    * `_host_spec(features, labels, mode, config)` returns a stock `EstimatorSpec` of the model in
      the graph of the host, for export: features and labels are ordinary tensors.
    * `_prepare_dataset(dataset, mode)` checks the elements of the dataset of `input_fn`, and
      returns the dataset that the infeed is made of.

    They may use:

    * `self._ipu`: the `IPURunConfig`; `self._num_workers`: processes that train together.
    * `self._params_for(mode)`: what the user's functions get as `params`.
    * `self._compile(computation)`: `ipu_compiler.compile` on the device.
    * `batches.infeed`, `batches.new_outfeed(mode)`: queues, freed when the session has ended.
    * `checks.check_replicated_training(graph, replicas)`, to be called in the computation.

    `warm_start_from`, `model_dir` and `params` are as for stock `Estimator`.
    """

    __repr__ = shows(
        lambda self: {
            "model_dir": self.model_dir,
            "device": self._ipu.device,
            "iterations_per_loop": self._ipu.iterations_per_loop,
            "num_replicas": self._ipu.num_replicas,
            "num_shards": self._ipu.num_shards,
        }
    )

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Any = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Any = None,
    ) -> IPUEstimatorBase:
        """Trains the model.

        Args:
            input_fn: returns a `tf.data.Dataset`. May take `mode`, `params` and `config`.
            hooks: `tf.estimator.SessionRunHook` objects, called for each run of
                `iterations_per_loop` steps.
            steps: how many steps to train for; a multiple of `iterations_per_loop`.
            max_steps: value of the global step to train to, instead. Training ends at the first
                end of a run there or after it.
            saving_listeners: `tf.estimator.CheckpointSaverListener` objects.

        Returns:
            The estimator.

        Raises:
            ValueError: If the steps, the dataset or what the model function returns are wrong.
            tf.errors.OutOfRangeError: If the dataset ends before.
        """
        arguments.check_training_steps(steps, max_steps, self._ipu.iterations_per_loop)
        with self._batches_deleted():
            super().train(input_fn, hooks, steps, max_steps, saving_listeners)
        return self

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Any = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Evaluates the model.

        Args:
            input_fn: as for `train`.
            steps: how many steps to evaluate; a multiple of `iterations_per_loop`.
            hooks: as for `train`.
            checkpoint_path: checkpoint to evaluate; the latest if None, or initial values if there
                is none.
            name: name of the evaluation, part of that of the folder of its summaries.

        Returns:
            Values by name: the metrics, `loss` and `global_step`.

        Raises:
            ValueError: If the steps, the dataset or what the model function returns are wrong.
            tf.errors.OutOfRangeError: If the dataset ends before.
        """
        arguments.check_evaluation_steps(steps, self._ipu.iterations_per_loop)
        with self._batches_deleted():
            return super().evaluate(input_fn, steps, hooks, checkpoint_path, name)

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Any = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
        num_predictions: int | None = None,
    ) -> Iterator[Any]:
        """Yields predictions, until the dataset ends.

        Args:
            input_fn: as for `train`; labels are dropped.
            predict_keys: names of the predictions to yield, if they are a dict; all if None.
            hooks: as for `train`.
            checkpoint_path: as for `evaluate`.
            yield_single_examples: whether to take batches apart. With one replica an item is then
                one example, with more it is the batch of one replica. Otherwise an item is what
                one iteration predicts, with a leading dimension for the replicas if there are more
                than one.
            num_predictions: how many items to yield at most.

        Yields:
            Arrays, or dicts of arrays.

        Raises:
            ValueError: If the dataset, the keys or what the model function returns are wrong.
        """
        yield from prediction.predict(
            self,
            input_fn,
            prediction.PredictionRequest(
                predict_keys, hooks, checkpoint_path, yield_single_examples, num_predictions
            ),
        )
