// The base of lowerings of ReplicatedAllGather.
#ifndef popart_popx_op_collectives_replicatedallgatherx_hpp
#define popart_popx_op_collectives_replicatedallgatherx_hpp

#include <popart/op/collectives/replicatedallgather.hpp>
#include <popart/popx/op/collectives/collectivesx.hpp>

#endif  // popart_popx_op_collectives_replicatedallgatherx_hpp
