// The graphs of a program's replicas, which share what is equal on all of them.
#ifndef TENSORFLOW_IPU_ENGINE_REPLICA_GRAPHS_H_
#define TENSORFLOW_IPU_ENGINE_REPLICA_GRAPHS_H_

#include "engine/uniform_values.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// Makes the graph of replica 0, the leader, out of the program's: it computes everything, publishes
// what its followers use, and waits for them before it writes a variable that they read.
tensorflow::Status MakeLeader(const UniformValues& values, tensorflow::Graph* graph);

// Makes the graph of the other replicas out of the program's. It has the same nodes, inputs and
// outputs. Nodes that compute the same on all replicas compute nothing: they take the results of
// the leader, or give empty tensors where only others of them use the results. So control flow,
// and what is dead in it, are those of the program.
//
// Small constants and integers are computed by each replica: loops count with them.
tensorflow::Status MakeFollower(const UniformValues& values, tensorflow::Graph* graph);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_REPLICA_GRAPHS_H_
