// Where tensors are: chip or host memory, and which tiles.
#ifndef popart_tensorlocation_hpp
#define popart_tensorlocation_hpp

#include <popart/basicoptionals.hpp>
#include <popart/commgroup.hpp>

namespace popart {

enum class TensorStorage { OnChip = 0, OffChip = 1 };
enum class TileSet { Compute = 0, IO = 1, Undefined = 2, N = 3 };
enum class ReplicatedTensorSharding { Off = 0, On = 1 };

using VGraphIdAndTileSet = std::pair<VGraphId, TileSet>;

std::ostream &operator<<(std::ostream &os, const TensorStorage &storage);
std::ostream &operator<<(std::ostream &os, const TileSet &tileSet);
std::ostream &operator<<(std::ostream &os, const ReplicatedTensorSharding &sharding);

class TensorLocation {
 public:
  TensorLocation() {}
  TensorLocation(TensorStorage storage) : storage(storage) {}
  TensorLocation(TensorStorage storage, ReplicatedTensorSharding sharding)
      : storage(storage), replicatedTensorSharding(sharding) {}
  TensorLocation(TensorStorage storage, TileSet loadTileSet, TileSet storageTileSet,
                 ReplicatedTensorSharding sharding)
      : storage(storage),
        loadTileSet(loadTileSet),
        storageTileSet(storageTileSet),
        replicatedTensorSharding(sharding) {}
  bool operator==(const TensorLocation &other) const {
    return storage == other.storage && loadTileSet == other.loadTileSet &&
           storageTileSet == other.storageTileSet &&
           replicatedTensorSharding == other.replicatedTensorSharding;
  }
  bool operator!=(const TensorLocation &other) const { return !(*this == other); }
  bool isRemote() const { return storage == TensorStorage::OffChip; }

  TensorStorage storage = TensorStorage::OnChip;
  TileSet loadTileSet = TileSet::Compute;
  TileSet storageTileSet = TileSet::Compute;
  ReplicatedTensorSharding replicatedTensorSharding = ReplicatedTensorSharding::Off;
  CommGroup shardingDomain;
};

std::ostream &operator<<(std::ostream &os, const TensorLocation &location);

using OptionalTensorLocation = BasicOptional<TensorLocation, 9>;

}  // namespace popart

#endif  // popart_tensorlocation_hpp
