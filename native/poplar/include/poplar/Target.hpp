// What programs are compiled for.
#ifndef poplar_Target_hpp
#define poplar_Target_hpp

#include <poplar/IeeeHalf.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/StringRef.hpp>
#include <poplar/TargetType.hpp>
#include <poplar/Type.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace poplar {

namespace core {
struct TargetData;
struct Access;
}  // namespace core

enum class IpuLinkConfiguration { Default, SlidingWindow, BarleyTwist };
enum class IpuLinkTopology { Mesh, Torus, Line };
enum class GatewayMode { Disabled, Enabled };

/// A kind of machine: chips, tiles, and their figures.
class Target {
 public:
  Target();

  TargetType getTargetType() const;
  StringRef getTargetArchString() const;
  StringRef getTargetSystemString() const;
  unsigned getNumIPUs() const;
  unsigned getTilesPerIPU() const;
  unsigned getNumTiles() const;
  unsigned getNumWorkerContexts() const;
  unsigned getBytesPerTile() const;
  std::uint64_t getMemoryBytes() const;
  /// Bytes of an element on the device.
  std::size_t getTypeSize(const Type &type) const;
  /// Bits that a tile loads at once.
  unsigned getDataPathWidth() const;
  unsigned getVectorWidth(const Type &type) const;
  unsigned getFloatVectorWidth() const;
  unsigned getHalfVectorWidth() const;
  unsigned getQuarterVectorWidth() const;
  /// Cycles of a tile in a second.
  double getTileClockFrequency() const;
  unsigned getExchangeBytesPerCycle() const;
  unsigned getMemcpyBytesPerCycle() const;
  unsigned getMinIPUSyncDelay() const;
  unsigned getMaxIPUSyncDelay() const;
  unsigned getGlobalSyncCycles() const;
  unsigned getAtomicStoreGranularity() const;
  std::size_t getRptCountMax() const;
  unsigned getNumStrideBits() const;
  unsigned getInterleavedMemoryElementIndex() const;
  std::vector<unsigned> getMemoryElementOffsets() const;
  bool supportsExchangeBusSharing() const;
  unsigned getTilesPerSharedExchangeBus() const;
  unsigned getIpuLinkDomainSize() const;
  IpuLinkConfiguration getIpuLinkConfiguration() const;
  IpuLinkTopology getIpuLinkTopology() const;
  GatewayMode getGatewayMode() const;
  unsigned getInstanceSize() const;
  unsigned getNumTilesPerXBContext() const;
  unsigned getNumContextsPerXB() const;
  // The convolution unit: units of a tile, weights of a unit, and rates.
  unsigned getNumConvUnits(const Type &input, const Type &partial) const;
  unsigned getNumConvUnits(bool floatInput, bool floatPartial) const;
  unsigned getWeightsPerConvUnit(const Type &input) const;
  unsigned getWeightsPerConvUnit(bool floatInput) const;
  unsigned getConvUnitInputLoadElemsPerCycle(const Type &input) const;
  unsigned getConvUnitInputLoadElemsPerCycle(bool floatInput) const;
  unsigned getConvUnitMaxPipelineDepth(const Type &partial) const;
  unsigned getConvUnitCoeffLoadBytesPerCycle() const;
  unsigned getFp16InFp16OutConvUnitsPerTile() const { return getNumConvUnits(false, false); }
  unsigned getFp16InFp32OutConvUnitsPerTile() const { return getNumConvUnits(false, true); }
  unsigned getFp32InFp32OutConvUnitsPerTile() const { return getNumConvUnits(true, true); }
  // Registers: bits in the order of the arguments, from the lowest.
  unsigned makeFpIctlValue(bool inv, bool div0, bool oflo, bool esr, bool nanoo) const;
  unsigned getFpIctlRegIndex() const;
  unsigned getDbgDataRegIndex() const;
  template <typename T>
  T getTypeLimitsMaxAs(const Type &type) const {
    return static_cast<T>(typeLimit(type, true));
  }
  template <typename T>
  T getTypeLimitsLowestAs(const Type &type) const {
    return static_cast<T>(typeLimit(type, false));
  }

  /// A part of this target.
  Target createVirtualTarget(unsigned numIPUs, unsigned tilesPerIPU) const;
  static Target createCPUTarget(bool accurateHalf = false, unsigned numIPUs = 1);
  /// A target without a device. `system` is the name of a chip ("ipu2") or a machine
  /// ("IPU-POD16").
  static Target createIPUTarget(StringRef system, const OptionFlags &options = OptionFlags());
  static Target createIPUTarget(unsigned numIPUs, StringRef system,
                                const OptionFlags &options = OptionFlags());
  static Target createIPUTarget(unsigned numIPUs, unsigned tilesPerIPU, StringRef system,
                                const OptionFlags &options = OptionFlags());

  bool operator==(const Target &other) const;
  bool operator!=(const Target &other) const { return !(*this == other); }
  std::size_t hash() const;

 private:
  friend struct core::Access;
  double typeLimit(const Type &type, bool max) const;
  explicit Target(std::shared_ptr<const core::TargetData> data) : data_(std::move(data)) {}
  std::shared_ptr<const core::TargetData> data_;
};

/// Converts between numbers of the host and halves of the device: to nearest even, and beyond the
/// largest finite half to that.
void copyFloatToDeviceHalf(const Target &target, const float *from, void *to, std::size_t count);
void copyDeviceHalfToFloat(const Target &target, const void *from, float *to, std::size_t count);
void copyDoubleToDeviceHalf(const Target &target, const double *from, void *to, std::size_t count);
void copyDeviceHalfToDouble(const Target &target, const void *from, double *to, std::size_t count);

}  // namespace poplar

#endif  // poplar_Target_hpp
