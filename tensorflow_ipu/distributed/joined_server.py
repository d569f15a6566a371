"""The server of a process that has joined others, as a `tf.distribute.Server`."""

from __future__ import annotations

import functools
import threading
from typing import Any

from tensorflow.python.training import server_lib

from tensorflow_ipu.util.short_repr import shows


class JoinedServer(server_lib.Server):
    """The server of a process that has joined the other instances. It never stops."""

    def __del__(self) -> None:
        """Leaves the server running: it is the process's."""

    def start(self) -> None:
        """Does nothing: the server runs already."""

    def join(self) -> None:
        """Blocks for ever, as in the base class."""
        threading.Event().wait()

    @property
    def target(self) -> str:
        """The target for a session to connect to this server."""
        task = self.server_def.task_index
        for job in self.server_def.cluster.job:
            if job.name == self.server_def.job_name:
                return f"grpc://{job.tasks[task]}"
        raise KeyError(self.server_def.job_name)

    __repr__ = shows(lambda self: {"target": self.target})


def serve(cluster: server_lib.ClusterSpec, job: str, task: int) -> None:
    """Makes `tf.distribute.Server` of a cluster's task return this process's own server.

    Servers for other tasks are TensorFlow's own. Without this, a server for the task of this
    process would find its address in use. Applies from now on.

    Args:
        cluster: the cluster.
        job: job of this process in it.
        task: number of its task.
    """
    stock = server_lib.Server.__init__
    definition = cluster.as_cluster_def()

    @functools.wraps(stock)
    def init(
        self: Any,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
    ) -> None:
        asked = server_lib._make_server_def(
            server_or_cluster_def, job_name, task_index, protocol, config
        )
        if (asked.cluster, asked.job_name, asked.task_index) != (definition, job, task):
            stock(self, server_or_cluster_def, job_name, task_index, protocol, config, start)
            return
        self.__class__ = JoinedServer
        self._server_def = asked
        self._server = None

    server_lib.Server.__init__ = init
