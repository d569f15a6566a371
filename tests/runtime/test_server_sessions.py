"""Programs in sessions on a server of TensorFlow's, which is in this process."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python import ipu

from tests.support.programs import replicas

tf1 = tf.compat.v1


def test_a_program_runs_in_a_graph_that_grows():
    """The session keeps the kernel of the program, but not the graphs that it has made of this."""
    replicas.configure(2)
    server = tf1.train.Server.create_local_server()
    with tf.Graph().as_default(), tf1.Session(server.target) as session:
        x = tf1.placeholder(tf.float32, [2])
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            (doubled,) = ipu.ipu_compiler.compile(lambda x: x + x, [x])
        for grown in range(3):
            more = doubled + float(grown)
            assert session.run(more, {x: [1.0, 2.0]}).tolist() == [2.0 + grown, 4.0 + grown]
            assert session.run(doubled, {x: [3.0, 4.0]}).tolist() == [6.0, 8.0]
