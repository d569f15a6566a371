"""`RunConfig` and `IPURunConfig` of estimators: the public module `ipu.ipu_run_config`."""

from __future__ import annotations

import collections
import copy
from typing import Any

import tensorflow as tf

from tensorflow_ipu.configs import flags, translate
from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.configs.machine import MOST_IPUS, Machine
from tensorflow_ipu.configs.proto.ipu_options_pb2 import IpuOptions
from tensorflow_ipu.configs.ranges import COUNT, INT32, Range
from tensorflow_ipu.distributed.instance_strategy import InstanceStrategy
from tensorflow_ipu.distributed.instances import EVALUATOR
from tensorflow_ipu.runtime import system
from tensorflow_ipu.util.short_repr import Shown, shows

__all__ = ["IPURunConfig", "RunConfig"]

_IPUS = Range(1, MOST_IPUS, below="must be at least 1")
_ORDINALS = Range(0, INT32)


class IPURunConfig(
    collections.namedtuple(
        "IPURunConfig",
        [
            "iterations_per_loop",
            "ipu_options",
            "compile_summary",
            "num_replicas",
            "num_shards",
            "ordinal",
            "prefetch_depth",
        ],
    )
):
    """Options of an estimator for the IPUs it runs on."""

    __slots__ = ()

    __repr__ = shows(
        lambda self: {
            **self._asdict(),
            "ipu_options": self.ipu_options and Shown(_options_shown(self.ipu_options)),
        }
    )

    def __new__(
        cls,
        iterations_per_loop: int = 1,
        ipu_options: IPUConfig | IpuOptions | None = None,
        compile_summary: bool = False,
        num_replicas: int = 1,
        num_shards: int = 1,
        ordinal: int = 0,
        prefetch_depth: int | None = None,
    ) -> IPURunConfig:
        """Checks the options and keeps them.

        Args:
            iterations_per_loop: Mini-batches that each replica processes in one `Session.run`; the
                global step grows by so many.
            ipu_options: the configuration that the estimator puts in force for its programs. None
                if the program around it has configured the IPU system.
            compile_summary: whether to write the trace events of programs as summaries.
            num_replicas: copies of the model that share the batches.
            num_shards: IPUs that one copy is sharded over.
            ordinal: k of the device `/device:IPU:k` to run on.
            prefetch_depth: elements to read ahead for each replica; None for the infeed's default.
                Checked when the infeed is made.

        Returns:
            The options.

        Raises:
            TypeError: If `ipu_options` is no configuration.
            ValueError: If a number is no integer in its range, or `ipu_options` has other devices
                than those that the replicas and shards need.
        """
        options = super().__new__(
            cls,
            COUNT.whole("iterations_per_loop", iterations_per_loop),
            ipu_options,
            compile_summary,
            _IPUS.whole("num_replicas", num_replicas),
            _IPUS.whole("num_shards", num_shards),
            _ORDINALS.whole("ordinal", ordinal),
            prefetch_depth,
        )
        _check_options(options)
        return options

    @property
    def num_ipus(self) -> int:
        """IPUs that the replicas need together."""
        return self.num_replicas * self.num_shards

    @property
    def device(self) -> str:
        """Name of the TensorFlow device to run on."""
        return f"/device:IPU:{self.ordinal}"


class RunConfig(tf.compat.v1.estimator.RunConfig):
    """The configuration of an estimator for IPUs."""

    def __init__(
        self,
        ipu_run_config: IPURunConfig | None = None,
        master: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes a configuration.

        Args:
            ipu_run_config: options for IPUs; the defaults of `IPURunConfig` if None.
            master: address of the TensorFlow server to run sessions on; in this process if None.
            **kwargs: arguments of `tf.estimator.RunConfig`.

        Raises:
            TypeError: If `ipu_run_config` is something else.
        """
        super().__init__(**kwargs)
        ipu_run_config = IPURunConfig() if ipu_run_config is None else ipu_run_config
        if not isinstance(ipu_run_config, IPURunConfig):
            raise TypeError(
                "`ipu_run_config` must be an `IPURunConfig`. "
                f"Received: {type(ipu_run_config).__name__}"
            )
        self._ipu_run_config = ipu_run_config
        if master is not None:
            # Where stock RunConfig keeps what it finds in the environment.
            self._master = master
            self._evaluation_master = master
        if isinstance(self.train_distribute, InstanceStrategy):
            self._be_worker_of(self.train_distribute)

    def _be_worker_of(self, strategy: InstanceStrategy) -> None:
        """Sets which worker this is; stock RunConfig expects to be told when training begins.

        Each worker has a session of its own, so it is no part of a cluster for the rest of
        TensorFlow, nor does that start servers and coordinate them.
        """
        self._distribute_coordinator_mode = None
        self._cluster_spec = tf.train.ClusterSpec({})
        resolver = getattr(strategy, "cluster_resolver", None)
        if resolver is not None and resolver.task_type == EVALUATOR:
            self._task_type, self._task_id = EVALUATOR, resolver.task_id or 0
            self._is_chief = False
            return
        instances = strategy.instances
        self._task_type, self._task_id = instances.task(instances.index)
        self._is_chief = instances.index == 0
        self._num_worker_replicas = instances.count
        self._global_id_in_cluster = instances.index

    def of_follower(self) -> RunConfig:
        """Returns a copy for the session of a worker that saves nothing.

        For that session it is the chief: there is nobody else to make its variables.
        """
        config = copy.copy(self)
        config._is_chief = True
        config._save_checkpoints_secs = config._save_checkpoints_steps = None
        config._save_summary_steps = config._log_step_count_steps = None
        return config

    __repr__ = shows(lambda self: {"": self._ipu_run_config, "model_dir": self.model_dir})

    @property
    def ipu_run_config(self) -> IPURunConfig:
        """The options for IPUs."""
        return self._ipu_run_config

    @property
    def evaluator_master(self) -> str:
        """Address of the TensorFlow server to evaluate on, as `evaluation_master`."""
        return self.evaluation_master


def _options_shown(options: IPUConfig | IpuOptions) -> str:
    """How a configuration is shown: of a message, which is long, only the class."""
    return repr(options) if isinstance(options, IPUConfig) else type(options).__name__


def configure(options: IPURunConfig) -> None:
    """Puts the configuration of an estimator in force, if it has one.

    With the same configuration in force already nothing happens.

    Args:
        options: the estimator's argument.

    Raises:
        ValueError: If the device has another number of IPUs than the replicas and shards need.
        Exception: As `IPUConfig.configure_ipu_system`.
    """
    if options.ipu_options is None:
        return
    system.configure_ipu_system(options.ipu_options)
    devices = system.current().devices
    _check_ordinal(options, len(devices))
    _check_count(options, devices[options.ordinal].num_ipus)


def _check_options(options: IPURunConfig) -> None:
    """Compares the IPUs that are needed with those that `ipu_options` selects.

    Which IPUs ids stand for is known only when the system is configured; see `configure`.
    """
    if options.ipu_options is None:
        if options.num_ipus > 1:
            raise ValueError(
                "The `IPURunConfig` configuration requires more than one device, but `ipu_options` "
                f"is None. Received: num_replicas={options.num_replicas}, "
                f"num_shards={options.num_shards}. {_how_to_select(options.num_ipus)}"
            )
        return
    config = _as_config(options.ipu_options)
    if config.select_ipus:
        _check_ordinal(options, len(_as_list(config.select_ipus)))
        return
    counts = _as_list(config.auto_select_ipus) or [1]
    _check_ordinal(options, len(counts))
    _check_count(options, counts[options.ordinal])


def _as_config(ipu_options: Any) -> IPUConfig:
    if isinstance(ipu_options, IPUConfig):
        return ipu_options
    if isinstance(ipu_options, IpuOptions):
        return translate.from_options(ipu_options)
    raise TypeError(
        "`ipu_options` must be an IPUConfig, or an IpuOptions made by create_ipu_config. "
        f"Received: {type(ipu_options).__name__}"
    )


def _as_list(value: int | list[int] | tuple[int, ...]) -> list[int]:
    return [value] if isinstance(value, int) else list(value)


def _check_ordinal(options: IPURunConfig, devices: int) -> None:
    if options.ordinal >= devices:
        raise ValueError(
            f"`IPURunConfig` configured with ordinal {options.ordinal}, but `ipu_options` has only "
            f"{devices} device(s) available to choose from: 0 to {devices - 1}."
        )


def _check_count(options: IPURunConfig, ipus: int) -> None:
    if ipus != options.num_ipus:
        raise ValueError(
            f"`IPURunConfig` configured with {options.num_ipus} devices ({options.num_replicas} "
            f"replicas times {options.num_shards} shards), but `IpuOptions` configured with {ipus} "
            f"devices, in `ipu_options` for ordinal {options.ordinal}. Make them equal. "
            f"{_how_to_select(options.num_ipus)}"
        )


def _how_to_select(ipus: int) -> str:
    """Describes how to select a number of IPUs, or that no device has that number."""
    machine = Machine(is_model=flags.running_on_ipu_model())
    if machine.is_model or ipus in machine.sizes:
        return f"Pass an IPUConfig with auto_select_ipus = {ipus}."
    return f"No device has {ipus} IPUs. {machine.offer}"
