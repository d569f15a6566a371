"""Workers of estimators: their configuration, and the checkpoints of the chief.

`tests/distributed/test_equality.py` trains with real workers.
"""

from __future__ import annotations

import json

import pytest
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ipu_multi_worker_strategy import IPUMultiWorkerStrategy

from tensorflow_ipu.distributed.instances import Instances
from tensorflow_ipu.estimators import sessions

CLUSTER = {"worker": ["localhost:1", "localhost:2"]}


@pytest.fixture
def task(monkeypatch):
    """Returns a function that makes a configuration in a task of a cluster."""

    def make(kind, index):
        told = {"cluster": CLUSTER, "task": {"type": kind, "index": index}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(told))
        monkeypatch.setattr("tensorflow_ipu.distributed.joining.join", lambda found: found)
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        strategy = IPUMultiWorkerStrategy(resolver)
        return ipu.ipu_run_config.RunConfig(train_distribute=strategy)

    return make


@pytest.mark.parametrize("index", [0, 1])
def test_worker_has_own_session_and_first_is_chief(task, index):
    config = task("worker", index)
    assert config.is_chief is (index == 0)
    assert (config.task_type, config.task_id) == ("worker", index)
    assert (config.num_worker_replicas, config.global_id_in_cluster) == (2, index)
    assert config.master == "" and not config.cluster_spec


def test_an_evaluator_is_none_of_the_workers(task):
    config = task("evaluator", 0)
    assert (config.task_type, config.is_chief) == ("evaluator", False)
    assert config.train_distribute.instances == Instances()


def test_a_follower_saves_nothing(task):
    config = task("worker", 1)
    assert config.save_checkpoints_secs and config.save_summary_steps
    follower = config.of_follower()
    assert follower.is_chief
    assert not (follower.save_checkpoints_secs or follower.save_checkpoints_steps)
    assert not (follower.save_summary_steps or follower.log_step_count_steps)
    assert config.save_checkpoints_secs and not config.is_chief


@pytest.mark.parametrize("theirs", ["model.ckpt-3", ""])
def test_workers_without_chief_checkpoint_fail(monkeypatch, tmp_path, theirs):
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-6"\n')
    (tmp_path / "model.ckpt-6.index").write_text("")

    def joined(value, name):
        del name
        line = bytes(value.numpy().tolist())
        other = json.dumps(theirs).encode() + b"\n" if line == b'"model.ckpt-6"\n' else line
        return tf.constant(list(line + other), tf.uint8)

    monkeypatch.setattr(sessions.transport, "joined", joined)
    expected = f"model.ckpt-6 in {tmp_path}, but worker 1 finds {theirs or 'none'} there. model_dir"
    with pytest.raises(RuntimeError, match=expected):
        sessions.folder_of_chief(str(tmp_path))
