// Steps in which replicas, or the IPUs of one replica, exchange and reduce tensors.
#ifndef gcl_Collectives_hpp
#define gcl_Collectives_hpp

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

#include <iosfwd>
#include <string>
#include <vector>

namespace gcl {

/// What a reduction does to the elements of replicas. LOCAL keeps those of the replica itself.
enum class CollectiveOperator {
  ADD,
  MEAN,
  MUL,
  MIN,
  MAX,
  LOGICAL_AND,
  LOGICAL_OR,
  SQUARE_ADD,
  LOCAL
};
std::ostream &operator<<(std::ostream &os, CollectiveOperator op);
std::istream &operator>>(std::istream &is, CollectiveOperator &op);

/// How replicas are put into groups: all in one; 0 and 1, 2 and 3, ...; 0 and n/2, 1 and n/2 + 1,
/// ...
enum class CommGroupType { ALL, CONSECUTIVE, ORTHOGONAL };

/// Groups of replicas. Members of a consecutive group are `replicaGroupStride` apart.
struct CommGroup {
  CommGroup() = default;
  CommGroup(CommGroupType groupType, unsigned replicaGroupSize, unsigned replicaGroupStride = 1)
      : replicaGroupSize(replicaGroupSize),
        type(groupType),
        replicaGroupStride(replicaGroupStride) {}

  unsigned replicaGroupSize = 0;  // 0 is all
  CommGroupType type = CommGroupType::ALL;
  unsigned replicaGroupStride = 1;
};

// Every replica gets the reduction over its group.
poplar::Tensor allReduceCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                     CollectiveOperator op, poplar::program::Sequence &prog,
                                     const CommGroup &group,
                                     const poplar::DebugContext &debugContext = {},
                                     const poplar::OptionFlags &options = {});
poplar::Tensor allReduceCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                     CollectiveOperator op, poplar::program::Sequence &prog,
                                     const poplar::DebugContext &debugContext = {},
                                     const poplar::OptionFlags &options = {});
std::vector<poplar::Tensor> allReduceCrossReplica(
    poplar::Graph &graph, const std::vector<poplar::Tensor> &datas, CollectiveOperator op,
    poplar::program::Sequence &prog, const CommGroup &group,
    const poplar::DebugContext &debugContext = {}, const poplar::OptionFlags &options = {});
std::vector<poplar::Tensor> allReduceCrossReplica(poplar::Graph &graph,
                                                  const std::vector<poplar::Tensor> &datas,
                                                  CollectiveOperator op,
                                                  poplar::program::Sequence &prog,
                                                  const poplar::DebugContext &debugContext = {},
                                                  const poplar::OptionFlags &options = {});

// The same, in the place of `data` or in `destination`.
void allReduceInPlaceCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                  CollectiveOperator op, poplar::program::Sequence &prog,
                                  const CommGroup &group,
                                  const poplar::DebugContext &debugContext = {},
                                  const poplar::OptionFlags &options = {});
void allReduceInPlaceCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                  CollectiveOperator op, poplar::program::Sequence &prog,
                                  const poplar::DebugContext &debugContext = {},
                                  const poplar::OptionFlags &options = {});
void allReduceInPlaceCrossReplica(poplar::Graph &graph, const std::vector<poplar::Tensor> &datas,
                                  CollectiveOperator op, poplar::program::Sequence &prog,
                                  const CommGroup &group,
                                  const poplar::DebugContext &debugContext = {},
                                  const poplar::OptionFlags &options = {});
void allReduceToDestinationCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                        poplar::Tensor &destination, CollectiveOperator op,
                                        poplar::program::Sequence &prog, const CommGroup &group,
                                        const poplar::DebugContext &debugContext = {},
                                        const poplar::OptionFlags &options = {});
void allReduceToDestinationCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                        poplar::Tensor &destination, CollectiveOperator op,
                                        poplar::program::Sequence &prog,
                                        const poplar::DebugContext &debugContext = {},
                                        const poplar::OptionFlags &options = {});

// Member i of a group of n gets part i of the reduced elements, in row-major order. The last part
// is filled up with zeros.
poplar::Tensor reduceScatterCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                         CollectiveOperator op, poplar::program::Sequence &prog,
                                         const CommGroup &group,
                                         const poplar::DebugContext &debugContext = {},
                                         const poplar::OptionFlags &options = {});
poplar::Tensor reduceScatterCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                         CollectiveOperator op, poplar::program::Sequence &prog,
                                         const poplar::DebugContext &debugContext = {},
                                         const poplar::OptionFlags &options = {});
void reduceScatterToDestinationCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                            const poplar::Tensor &destination,
                                            CollectiveOperator op, poplar::program::Sequence &prog,
                                            const CommGroup &group,
                                            const poplar::DebugContext &debugContext = {},
                                            const poplar::OptionFlags &options = {});
void reduceScatterToDestinationCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                            const poplar::Tensor &destination,
                                            CollectiveOperator op, poplar::program::Sequence &prog,
                                            const poplar::DebugContext &debugContext = {},
                                            const poplar::OptionFlags &options = {});

// Every member gets {n, shape...}: the tensors of all members.
poplar::Tensor allGatherCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                     poplar::program::Sequence &prog, const CommGroup &group,
                                     const poplar::DebugContext &debugContext = {},
                                     const poplar::OptionFlags &options = {});
poplar::Tensor allGatherCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                     poplar::program::Sequence &prog,
                                     const poplar::DebugContext &debugContext = {},
                                     const poplar::OptionFlags &options = {});
void allGatherToDestinationCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                        const poplar::Tensor &destination,
                                        poplar::program::Sequence &prog, const CommGroup &group,
                                        const poplar::DebugContext &debugContext = {},
                                        const poplar::OptionFlags &options = {});
void allGatherToDestinationCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                        const poplar::Tensor &destination,
                                        poplar::program::Sequence &prog,
                                        const poplar::DebugContext &debugContext = {},
                                        const poplar::OptionFlags &options = {});

// Row i of `data` {n, ...} goes to member i, as its row of the sender's number.
poplar::Tensor allToAllCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                    poplar::program::Sequence &prog, const CommGroup &group,
                                    const poplar::DebugContext &debugContext = {},
                                    const poplar::OptionFlags &options = {});
poplar::Tensor allToAllCrossReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                    poplar::program::Sequence &prog,
                                    const poplar::DebugContext &debugContext = {},
                                    const poplar::OptionFlags &options = {});

/// A part of a reduced tensor, on one IPU.
struct Chunk {
  poplar::Tensor tensor;
  unsigned index = 0;   // of the IPU
  unsigned offset = 0;  // of the first element

  Chunk() = default;
  Chunk(poplar::Tensor tensor, unsigned index, unsigned offset)
      : tensor(std::move(tensor)), index(index), offset(offset) {}
};

struct Chunks {
  poplar::Tensor originalInput;
  std::vector<Chunk> chunks;

  Chunks() = default;
  explicit Chunks(unsigned size) : chunks(size) {}
};

// Between the IPUs of a replica: `data` is {IPUs, ...}, with one row on each IPU.
poplar::Tensor allReduceWithinReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                      CollectiveOperator op, poplar::program::Sequence &prog,
                                      const poplar::DebugContext &debugContext = {},
                                      const poplar::OptionFlags &options = {});
Chunks reduceScatterWithinReplica(poplar::Graph &graph, const poplar::Tensor &data,
                                  CollectiveOperator op, poplar::program::Sequence &prog,
                                  const poplar::DebugContext &debugContext = {},
                                  const poplar::OptionFlags &options = {});
poplar::Tensor allGatherWithinReplica(poplar::Graph &graph, const Chunks &chunks,
                                      poplar::program::Sequence &prog,
                                      const poplar::DebugContext &debugContext = {},
                                      const poplar::OptionFlags &options = {});

}  // namespace gcl

#endif  // gcl_Collectives_hpp
