"""Methods of a Keras model that set its IPU options."""

from __future__ import annotations

from typing import Any

from tensorflow_ipu.api.gradient_accumulation import GradientAccumulationReductionMethod
from tensorflow_ipu.keras_layers.models.options import arguments
from tensorflow_ipu.keras_layers.models.options.model_options import (
    ModelOptions,
    ReplicatedMetricReductionMethod,
)


class OptionSetters:
    """Adds the setters of options to a model.

    Options can be set before and after `compile`. The next call of `fit`, `evaluate` or `predict`
    uses them; programs that were compiled with others are dropped.
    """

    # Of the model.
    _drop_ipu_programs: Any

    @property
    def _ipu_options(self) -> ModelOptions:
        """The options of the model, which Keras does not track."""
        created: ModelOptions = self.__dict__.setdefault("_ipu_options", ModelOptions())
        return created

    def set_gradient_accumulation_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        gradient_accumulation_reduction_method: GradientAccumulationReductionMethod | str = "sum",
        use_v2_gradient_accumulation_optimizer: bool = False,
        **gradient_accumulation_optimizer_kwargs: Any,
    ) -> None:
        """Makes `fit` update the weights once for several mini-batches.

        Models with pipeline stages are set with `set_pipelining_options` instead.

        Args:
            gradient_accumulation_steps_per_replica: Mini-batches of each replica for one update.
                It has to divide `steps_per_execution`. None for what was set before.
            gradient_accumulation_reduction_method: how the gradients of mini-batches become one:
                a `GradientAccumulationReductionMethod` or its name. Shared with
                `set_pipelining_options`.
            use_v2_gradient_accumulation_optimizer: changes nothing, since there is one
                accumulation for all optimizers; `fit` refuses it with one of TensorFlow 1.
            **gradient_accumulation_optimizer_kwargs: further arguments of
                `GradientAccumulationOptimizerV2`. They replace those of the last call, and are not
                saved with the model.

        Raises:
            TypeError: If there is no such further argument, or one is of the wrong type.
            ValueError: If the number of steps is no positive integer, there is no such method, or
                a further argument is not for users of Keras to set or contradicts another.
        """
        steps = gradient_accumulation_steps_per_replica
        if steps is not None:
            steps = arguments.positive_integer("gradient_accumulation_steps_per_replica", steps)
        method = GradientAccumulationReductionMethod.parse(gradient_accumulation_reduction_method)
        kwargs = arguments.checked_kwargs(
            "gradient_accumulation_optimizer_kwargs", gradient_accumulation_optimizer_kwargs
        )
        self._set_ipu_options(
            gradient_accumulation_steps_per_replica=steps,
            gradient_accumulation_reduction_method=method,
            use_v2_gradient_accumulation_optimizer=bool(use_v2_gradient_accumulation_optimizer),
            gradient_accumulation_optimizer_kwargs=kwargs,
        )

    def set_pipelining_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        device_mapping: list[int] | None = None,
        accumulate_outfeed: bool | None = None,
        gradient_accumulation_reduction_method: GradientAccumulationReductionMethod | str = "sum",
        **pipelining_kwargs: Any,
    ) -> None:
        """Says how a model with pipeline stages runs.

        Args:
            gradient_accumulation_steps_per_replica: Mini-batches of each replica for one update,
                which are what one execution of the pipeline in `fit` takes. None for what was set
                before.
            device_mapping: the IPU of each stage. None for what was set before: at first, stage
                `i` is on IPU `i`.
            accumulate_outfeed: whether the host gets losses and metrics once for each update, as
                they are at its end. None for what was set before: at first, it does not.
            gradient_accumulation_reduction_method: how the gradients of mini-batches become one:
                a `GradientAccumulationReductionMethod` or its name. Shared with
                `set_gradient_accumulation_options`.
            **pipelining_kwargs: further arguments of `pipelining_ops.pipeline`. They replace those
                of the last call, and are not saved with the model.

        Raises:
            TypeError: If there is no such further argument, or one is of the wrong type.
            ValueError: If the number of steps is no positive integer, the mapping is no list of
                integers, there is no such method, or a further argument is not for users of Keras
                to set or contradicts another.
            tf.errors.UnimplementedError: If weights are to be split over replicas, but not in
                remote memory.
        """
        steps = gradient_accumulation_steps_per_replica
        if steps is not None:
            steps = arguments.positive_integer("gradient_accumulation_steps_per_replica", steps)
        mapping = None if device_mapping is None else arguments.device_mapping(device_mapping)
        method = GradientAccumulationReductionMethod.parse(gradient_accumulation_reduction_method)
        kwargs = arguments.checked_kwargs("pipelining_kwargs", pipelining_kwargs)
        self._set_ipu_options(
            pipelining_gradient_accumulation_steps_per_replica=steps,
            pipelining_device_mapping=mapping,
            pipelining_accumulate_outfeed=(
                None if accumulate_outfeed is None else bool(accumulate_outfeed)
            ),
            gradient_accumulation_reduction_method=method,
            pipelining_kwargs=kwargs,
        )

    def set_infeed_queue_options(self, **kwargs: Any) -> None:
        """Says how data reach the device.

        Args:
            **kwargs: arguments of `IPUInfeedQueue`, such as `prefetch_depth` and
                `optimise_latency`. They replace those of the last call.

        Raises:
            TypeError: If the queue has no such argument.
            ValueError: If one of them is for Keras to set.
        """
        self._set_ipu_options(infeed_kwargs=arguments.checked_kwargs("infeed_kwargs", kwargs))

    def set_outfeed_queue_options(self, **kwargs: Any) -> None:
        """Says how results reach the host.

        Args:
            **kwargs: arguments of `IPUOutfeedQueue`, such as `buffer_depth` and
                `optimise_latency`. They replace those of the last call.

        Raises:
            TypeError: If the queue has no such argument.
            ValueError: If one of them is for Keras to set.
        """
        self._set_ipu_options(outfeed_kwargs=arguments.checked_kwargs("outfeed_kwargs", kwargs))

    def set_replication_options(
        self, replicated_metric_reduction_method: ReplicatedMetricReductionMethod | str = "NONE"
    ) -> None:
        """Says what becomes of the losses and metrics of several replicas.

        Args:
            replicated_metric_reduction_method: a `ReplicatedMetricReductionMethod` or its name.

        Raises:
            ValueError: If there is no such method.
        """
        method = ReplicatedMetricReductionMethod.parse(replicated_metric_reduction_method)
        self._set_ipu_options(replicated_metric_reduction_method=method)

    def set_asynchronous_callbacks(self, asynchronous: bool = False) -> None:
        """Says whether callbacks are called while the device runs.

        Args:
            asynchronous: whether the hooks for batches are called for each step, as soon as its
                results are there. Otherwise they are called once for each execution.
        """
        self._set_ipu_options(asynchronous_callbacks=bool(asynchronous))

    def set_custom_train_step(self, enabled: bool = True) -> None:
        """Says whether `fit` compiles a `train_step` of the model's own into its program.

        The step may do what Keras lets it do: several tapes and optimizers, losses and metrics of
        its own. On each replica it gets that replica's batch. Keras's optimizers add up the
        gradients of all replicas, as in `fit` without a step of its own.

        Args:
            enabled: whether it does. Otherwise `fit` refuses such a model, as it does at first
                unless the strategy was made with `enable_custom_train_step=True`.
        """
        self._set_ipu_options(custom_train_step=bool(enabled))

    def set_partial_batch_options(self, pad_in_fit: bool = False) -> None:
        """Says what becomes of batches that have fewer rows than others.

        `evaluate` and `predict` run them in any case.

        Args:
            pad_in_fit: whether `fit` takes such data. It pads these batches, and where replicas and
                gradient accumulation need more batches, adds some of padding only. What is padding
                has no part in losses, metrics and gradients. Otherwise such data are an error.
        """
        self._set_ipu_options(pad_in_fit=bool(pad_in_fit))

    def _set_ipu_options(self, **values: Any) -> None:
        """Sets options, apart from those that are None, and drops what was compiled without."""
        for name, value in values.items():
            if value is not None:
                setattr(self._ipu_options, name, value)
        self._drop_ipu_programs()
