// A model of an IPU, with figures that a program may change.
#ifndef poplar_IPUModel_hpp
#define poplar_IPUModel_hpp

#include <poplar/Device.hpp>
#include <poplar/OptionFlags.hpp>

#include <limits>
#include <string>
#include <vector>

namespace poplar {

enum class RelativeSyncDelayType { AUTO, NO_DELAY };

/// Tiles whose exchange together is limited.
struct GlobalExchangeConstraint {
  double bandwidth;
  std::vector<std::pair<unsigned, unsigned>> flows;
};

/// Figures of an IPU, and the device that has them.
struct IPUModel {
  using RelativeSyncDelayType = poplar::RelativeSyncDelayType;
  std::string IPUVersion;
  unsigned numIPUs;
  unsigned tilesPerSuperTile;
  unsigned tilesPerIPU;
  unsigned numWorkerContexts;
  unsigned memoryBytesPerTile;
  double tileClockFrequency;
  unsigned exchangeBytesPerCycle;
  unsigned memcpyBytesPerCycle;
  unsigned instructionBytes;
  bool supportsSuperTileSendReceive;
  unsigned interleavedMemoryElementIndex;
  RelativeSyncDelayType relativeSyncDelay;
  unsigned minIPUSyncDelay;
  unsigned globalSyncCycles;
  std::vector<GlobalExchangeConstraint> globalExchangeConstraints;
  bool compileIPUCode;

  /// Throws invalid_machine_model for a chip that is not known.
  explicit IPUModel(const char *IPUVersion = "ipu2");
  Device createDevice(OptionFlags options = OptionFlags(), bool accurateHalf = false,
                      unsigned deviceManagerId = std::numeric_limits<unsigned>::max()) const;
};

}  // namespace poplar

#endif  // poplar_IPUModel_hpp
