"""Programs for several processes, in a process that has joined none, or joined as another one."""

from __future__ import annotations

import textwrap

import pytest
import tensorflow as tf

from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed import ipu_strategy
from tests.support.processes import instances

_PROGRAM = textwrap.dedent(
    """
    import tensorflow as tf
    from tensorflow.python import ipu
    from tensorflow_ipu.ops.cross_replica_ops import cross_replica_sum
    from tests.support.processes import instances

    me = instances.join()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    distribution = config.experimental.multi_replica_distribution
    for count, index in [(me.count, 1 - me.index), (4, me.index), (me.count, me.index)]:
        distribution.process_count, distribution.process_index = count, index
        config.configure_ipu_system()
        strategy = ipu.ipu_strategy.IPUStrategy()
        function = tf.function(lambda: cross_replica_sum(me.index + 1.0), jit_compile=True)
        with strategy.scope():
            try:
                instances.report(value=float(strategy.run(function)))
            except tf.errors.FailedPreconditionError as error:
                instances.report(error=error.message)

    from tensorflow_ipu.distributed.popdist_strategy import PopDistStrategy

    def reduced():
        replica = tf.distribute.get_replica_context()
        return replica.all_reduce("SUM", tf.constant(me.index + 1.0))

    strategy = PopDistStrategy()
    instances.report(value=float(strategy.run(tf.function(reduced, jit_compile=True))))
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    instances.report(value=float(strategy.run(tf.function(lambda: reduced(), jit_compile=True))))
    """
)


def test_unjoined_process_fails_before_first_step():
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.experimental.multi_replica_distribution.process_count = 2
    config.configure_ipu_system()
    with pytest.raises(
        tf.errors.FailedPreconditionError,
        match=r"(?s)replicas in 2 processes .*has not joined the others\. Call popdist\.init\(\) "
        r"at the beginning of the program, and start it with poprun --num-instances 2\.",
    ):
        ipu_strategy.IPUStrategy().run(tf.function(lambda: tf.constant(1.0), jit_compile=True))


def test_configuration_has_to_say_what_process_has_joined():
    for index, outcome in enumerate(instances.run(["-c", _PROGRAM], 2)):
        other_index, other_count, right, reduced, not_configured = outcome.reports
        joined = rf"it has joined the others as instance {index} of 2"
        assert f"that this is process {1 - index} of 2" in other_index["error"]
        assert joined in other_index["error"]
        assert f"that this is process {index} of 4" in other_count["error"]
        assert joined in other_count["error"]
        assert right == {"value": 3.0}
        assert reduced == {"value": 3.0}
        assert not_configured == {"value": index + 1.0}
        assert "over 2 instances, but the IPUs are configured for 1" in outcome.errors
