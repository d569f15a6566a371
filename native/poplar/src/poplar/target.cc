#include "poplar/Target.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <tuple>

#include "access.h"
#include "poplar/DeviceManager.hpp"
#include "poplar/IPUModel.hpp"
#include "poplar/exceptions.hpp"
#include "target_data.h"
#include "types.h"

namespace poplar {

using core::Access;
using core::DeviceData;
using core::TargetData;

namespace core {
namespace {

constexpr Chip kChips[] = {
#include "chips.inc"
};

// What programs on the machine run on.
constexpr const char* kArchitecture = "ipu2";
// IPUs of the simulated machine.
constexpr unsigned kMachineIpus = 16;

}  // namespace

const Chip* FindChip(const std::string& architecture) {
  for (const Chip& chip : kChips) {
    if (architecture == chip.architecture) return &chip;
  }
  return nullptr;
}

namespace {

std::shared_ptr<TargetData> DataOf(TargetType type, const std::string& architecture,
                                   unsigned ipus) {
  const Chip* chip = FindChip(architecture);
  if (chip == nullptr) {
    throw invalid_machine_model("There is no chip '" + architecture +
                                "': use ipu1, ipu2 or ipu21.");
  }
  auto data = std::make_shared<TargetData>();
  data->type = type;
  data->architecture = architecture;
  data->system = "IPU-POD" + std::to_string(kMachineIpus);
  data->ipus = ipus;
  data->tiles_per_ipu = chip->tiles;
  data->workers = chip->workers;
  data->memory_per_tile = chip->memory_per_tile;
  data->clock = chip->clock;
  data->chip = *chip;
  return data;
}

// "ipu2", or a machine, which has the default chip ("IPU-POD16") or Bow ("BOW-POD16").
std::string ArchitectureOf(const std::string& system) {
  if (FindChip(system) != nullptr) return system;
  return system.compare(0, 3, "BOW") == 0 || system.compare(0, 3, "bow") == 0 ? "ipu21"
                                                                              : kArchitecture;
}

Device MakeDevice(unsigned id, std::shared_ptr<const TargetData> target) {
  Device device;
  Access::Data(device) = std::make_unique<DeviceData>();
  Access::Data(device)->id = id;
  Access::Data(device)->target = Access::MakeTarget(std::move(target));
  return device;
}

}  // namespace
}  // namespace core

std::string toString(TargetType type) {
  switch (type) {
    case TargetType::IPU:
      return "IPU";
    case TargetType::IPU_MODEL:
      return "IPU_MODEL";
    case TargetType::CPU:
      return "CPU";
  }
  return "";
}

std::ostream& operator<<(std::ostream& os, TargetType type) { return os << toString(type); }

Target::Target() : data_(Access::Data(createCPUTarget())) {}

TargetType Target::getTargetType() const { return data_->type; }
StringRef Target::getTargetArchString() const { return data_->architecture; }
StringRef Target::getTargetSystemString() const { return data_->system; }
unsigned Target::getNumIPUs() const { return data_->ipus; }
unsigned Target::getTilesPerIPU() const { return data_->tiles_per_ipu; }
unsigned Target::getNumTiles() const { return data_->ipus * data_->tiles_per_ipu; }
unsigned Target::getNumWorkerContexts() const { return data_->workers; }
unsigned Target::getBytesPerTile() const { return data_->memory_per_tile; }
uint64_t Target::getMemoryBytes() const { return uint64_t{getNumTiles()} * getBytesPerTile(); }
size_t Target::getTypeSize(const Type& type) const { return core::SizeOf(type); }
unsigned Target::getDataPathWidth() const { return 8 * data_->chip.load_bytes_per_cycle / 2; }
unsigned Target::getFloatVectorWidth() const { return data_->chip.float_vector_width; }
unsigned Target::getHalfVectorWidth() const { return data_->chip.half_vector_width; }
unsigned Target::getQuarterVectorWidth() const { return 2 * getHalfVectorWidth(); }
double Target::getTileClockFrequency() const { return data_->clock; }
unsigned Target::getExchangeBytesPerCycle() const { return data_->chip.exchange_bytes_per_cycle; }
unsigned Target::getMemcpyBytesPerCycle() const { return data_->chip.load_bytes_per_cycle / 2; }
unsigned Target::getMinIPUSyncDelay() const { return data_->chip.sync_cycles; }
unsigned Target::getMaxIPUSyncDelay() const { return data_->chip.sync_cycles; }
unsigned Target::getGlobalSyncCycles() const { return data_->chip.sync_cycles; }
unsigned Target::getAtomicStoreGranularity() const { return 4; }
size_t Target::getRptCountMax() const { return 4095; }  // 12 bits
unsigned Target::getNumStrideBits() const { return 10; }
unsigned Target::getInterleavedMemoryElementIndex() const { return 0; }
std::vector<unsigned> Target::getMemoryElementOffsets() const { return {0}; }
bool Target::supportsExchangeBusSharing() const { return getTilesPerSharedExchangeBus() > 1; }
unsigned Target::getTilesPerSharedExchangeBus() const { return data_->chip.tiles_per_bus; }
unsigned Target::getIpuLinkDomainSize() const { return data_->chip.link_domain; }
IpuLinkConfiguration Target::getIpuLinkConfiguration() const {
  return IpuLinkConfiguration::Default;
}
IpuLinkTopology Target::getIpuLinkTopology() const { return IpuLinkTopology::Mesh; }
GatewayMode Target::getGatewayMode() const { return GatewayMode::Enabled; }

unsigned Target::getInstanceSize() const { return core::kMachineIpus; }
// A context of the exchange block has the tiles of a pair of columns.
unsigned Target::getNumTilesPerXBContext() const { return 32; }
unsigned Target::getNumContextsPerXB() const { return 1; }

// Sixteen units read 16 halves; with float input or partials half as many are used.
unsigned Target::getNumConvUnits(const Type& input, const Type& partial) const {
  return getNumConvUnits(input == FLOAT, partial == FLOAT);
}
unsigned Target::getNumConvUnits(bool floatInput, bool floatPartial) const {
  return floatInput || floatPartial ? 8 : 16;
}
unsigned Target::getWeightsPerConvUnit(const Type& input) const {
  return getWeightsPerConvUnit(input == FLOAT);
}
unsigned Target::getWeightsPerConvUnit(bool floatInput) const { return floatInput ? 8 : 16; }
unsigned Target::getConvUnitInputLoadElemsPerCycle(const Type& input) const {
  return getConvUnitInputLoadElemsPerCycle(input == FLOAT);
}
unsigned Target::getConvUnitInputLoadElemsPerCycle(bool floatInput) const {
  return floatInput ? 2 : 4;
}
unsigned Target::getConvUnitMaxPipelineDepth(const Type&) const { return 4; }
unsigned Target::getConvUnitCoeffLoadBytesPerCycle() const { return 16; }

unsigned Target::makeFpIctlValue(bool inv, bool div0, bool oflo, bool esr, bool nanoo) const {
  return inv | div0 << 1 | oflo << 2 | esr << 3 | nanoo << 4;
}
unsigned Target::getFpIctlRegIndex() const { return 0; }
unsigned Target::getDbgDataRegIndex() const { return 1; }

double Target::typeLimit(const Type& type, bool max) const {
  if (type == FLOAT)
    return max ? std::numeric_limits<float>::max() : std::numeric_limits<float>::lowest();
  constexpr double kLargestHalf = 65504;
  if (type == HALF) return max ? kLargestHalf : -kLargestHalf;
  if (type == BOOL) return max ? 1 : 0;
  const bool is_signed = type == INT || type == SHORT || type == CHAR || type == SIGNED_CHAR ||
                         type == LONGLONG || type == LONG;
  const int bits = 8 * static_cast<int>(core::SizeOf(type)) - is_signed;
  return max ? std::ldexp(1.0, bits) - 1 : is_signed ? -std::ldexp(1.0, bits) : 0;
}

unsigned Target::getVectorWidth(const Type& type) const {
  return getDataPathWidth() / 8 / static_cast<unsigned>(getTypeSize(type));
}

Target Target::createVirtualTarget(unsigned numIPUs, unsigned tilesPerIPU) const {
  auto data = std::make_shared<TargetData>(*data_);
  data->ipus = numIPUs;
  data->tiles_per_ipu = tilesPerIPU;
  return Access::MakeTarget(std::move(data));
}

Target Target::createCPUTarget(bool, unsigned numIPUs) {
  const std::shared_ptr<TargetData> data =
      core::DataOf(TargetType::CPU, core::kArchitecture, numIPUs);
  data->architecture = "cpu";
  data->system = "cpu";
  data->tiles_per_ipu = 1;
  data->workers = 1;
  return Access::MakeTarget(data);
}

Target Target::createIPUTarget(StringRef system, const OptionFlags& options) {
  return createIPUTarget(1, system, options);
}

Target Target::createIPUTarget(unsigned numIPUs, StringRef system, const OptionFlags&) {
  const std::shared_ptr<TargetData> data =
      core::DataOf(TargetType::IPU, core::ArchitectureOf(system), numIPUs);
  data->system = system.cloneAsString();
  return Access::MakeTarget(data);
}

Target Target::createIPUTarget(unsigned numIPUs, unsigned tilesPerIPU, StringRef system,
                               const OptionFlags& options) {
  return createIPUTarget(numIPUs, system, options).createVirtualTarget(numIPUs, tilesPerIPU);
}

bool Target::operator==(const Target& other) const {
  const auto key = [](const TargetData& d) {
    return std::tie(d.type, d.architecture, d.ipus, d.tiles_per_ipu, d.memory_per_tile);
  };
  return key(*data_) == key(*other.data_);
}

size_t Target::hash() const {
  return std::hash<std::string>()(data_->architecture) * 31 + getNumTiles();
}

Device::Device() = default;
Device::Device(Device&&) noexcept = default;
Device& Device::operator=(Device&&) noexcept = default;
Device::~Device() = default;

unsigned Device::getId() const { return data_->id; }
const Target& Device::getTarget() const { return data_->target; }
std::vector<unsigned> Device::getDriverIDs() const { return {data_->id}; }

bool Device::attach() const {
  data_->attached = true;
  return true;
}
void Device::detach() const { data_->attached = false; }
bool Device::isAttached() const { return data_->attached; }
bool Device::hasGateway() const { return true; }
void Device::reset() const {}

bool Device::supportsRemoteBuffers() const {
  if (getTarget().getTargetType() != TargetType::IPU || !isAttached()) {
    throw poplar_error("Device::supportsRemoteBuffers: the device is no IPU that is attached.");
  }
  return true;
}

void Device::getDriverVersion(unsigned& major, unsigned& minor, unsigned& point) const {
  major = 1;
  minor = point = 0;
}

std::map<std::string, std::string> Device::getAttributes() const {
  const Target& target = getTarget();
  return {{"architecture", target.getTargetArchString()},
          {"tiles", std::to_string(target.getTilesPerIPU())},
          {"ipus", std::to_string(target.getNumIPUs())},
          {"clock", std::to_string(target.getTileClockFrequency())}};
}

std::string Device::getAttribute(StringRef name) const {
  const auto attributes = getAttributes();
  const auto found = attributes.find(name.cloneAsString());
  if (found == attributes.end()) {
    throw poplar_error("The device has no attribute '" + name.cloneAsString() + "'.");
  }
  return found->second;
}

std::vector<unsigned> Device::getNumaTopology() const { return {0}; }
std::vector<unsigned> Device::getNumaNodesUsedForIPUs() const { return {0}; }

Device Device::createVirtualDevice(unsigned tilesPerIPU) {
  Device device;
  device.data_ = std::make_unique<DeviceData>(*data_);
  device.data_->target = data_->target.createVirtualTarget(data_->target.getNumIPUs(), tilesPerIPU);
  return device;
}

Device Device::createCPUDevice(unsigned numIPUs) {
  return core::MakeDevice(0, Access::Data(Target::createCPUTarget(false, numIPUs)));
}

Device Device::createSimulatorDevice(const Target& target, const OptionFlags&) {
  auto data = std::make_shared<TargetData>(*Access::Data(target));
  data->type = TargetType::IPU_MODEL;
  return core::MakeDevice(0, data);
}

namespace {

struct Group {
  unsigned id, ipus;
};

// Single IPUs, then the groups of 2, 4, 8 and 16.
std::vector<Group> Groups() {
  std::vector<Group> groups;
  unsigned id = 0;
  for (unsigned ipus = 1; ipus <= core::kMachineIpus; ipus *= 2) {
    for (unsigned first = 0; first < core::kMachineIpus; first += ipus)
      groups.push_back({id++, ipus});
  }
  return groups;
}

Device DeviceOf(const Group& group) {
  return core::MakeDevice(group.id, core::DataOf(TargetType::IPU, core::kArchitecture, group.ipus));
}

}  // namespace

std::vector<Device> DeviceManager::getDevices(const OptionFlags&) const {
  std::vector<Device> devices;
  for (const Group& group : Groups()) devices.push_back(DeviceOf(group));
  return devices;
}

std::vector<Device> DeviceManager::getDevices(TargetType type, unsigned numIPUs,
                                              const OptionFlags&) const {
  std::vector<Device> devices;
  if (type == TargetType::CPU) devices.push_back(Device::createCPUDevice(numIPUs));
  if (type == TargetType::IPU_MODEL) {
    IPUModel model;
    model.numIPUs = numIPUs;
    devices.push_back(model.createDevice());
  }
  for (const Group& group : Groups()) {
    if (type == TargetType::IPU && group.ipus == numIPUs) devices.push_back(DeviceOf(group));
  }
  return devices;
}

Device DeviceManager::getDevice(unsigned id, const OptionFlags&) const {
  const std::vector<Group> groups = Groups();
  if (id >= groups.size()) {
    throw poplar_error("There is no device " + std::to_string(id) +
                       ": the machine has devices 0 to " + std::to_string(groups.size() - 1) + ".");
  }
  return DeviceOf(groups[id]);
}

Device DeviceManager::getDevice(TargetType type, unsigned id, const OptionFlags& options) const {
  if (type == TargetType::CPU) return Device::createCPUDevice();
  if (type == TargetType::IPU_MODEL) return IPUModel().createDevice();
  return getDevice(id, options);
}

size_t DeviceManager::getNumDevices() const { return Groups().size(); }

std::vector<unsigned> DeviceManager::getChildDeviceIds(unsigned parentId,
                                                       unsigned numChildIpus) const {
  const std::vector<Group> groups = Groups();
  const Device parent = getDevice(parentId);
  unsigned first_of_size = 0, first_child = 0;
  while (groups[first_of_size].ipus != groups[parentId].ipus) ++first_of_size;
  while (first_child < groups.size() && groups[first_child].ipus != numChildIpus) ++first_child;
  std::vector<unsigned> children;
  const unsigned count = groups[parentId].ipus / numChildIpus;
  for (unsigned i = 0; i < count && first_child < groups.size(); ++i) {
    children.push_back(first_child + (parentId - first_of_size) * count + i);
  }
  return children;
}

IPUModel::IPUModel(const char* version)
    : IPUVersion(version),
      numIPUs(1),
      tilesPerSuperTile(4),
      relativeSyncDelay(RelativeSyncDelayType::AUTO),
      compileIPUCode(false) {
  const auto data = core::DataOf(TargetType::IPU_MODEL, IPUVersion, 1);
  const Target target = Access::MakeTarget(data);
  tilesPerIPU = target.getTilesPerIPU();
  numWorkerContexts = target.getNumWorkerContexts();
  memoryBytesPerTile = target.getBytesPerTile();
  tileClockFrequency = target.getTileClockFrequency();
  exchangeBytesPerCycle = target.getExchangeBytesPerCycle();
  memcpyBytesPerCycle = target.getMemcpyBytesPerCycle();
  instructionBytes = 4;
  supportsSuperTileSendReceive = true;
  interleavedMemoryElementIndex = target.getInterleavedMemoryElementIndex();
  minIPUSyncDelay = target.getMinIPUSyncDelay();
  globalSyncCycles = target.getGlobalSyncCycles();
}

Device IPUModel::createDevice(OptionFlags, bool, unsigned deviceManagerId) const {
  const auto data = core::DataOf(TargetType::IPU_MODEL, IPUVersion, numIPUs);
  data->tiles_per_ipu = tilesPerIPU;
  data->workers = numWorkerContexts;
  data->memory_per_tile = memoryBytesPerTile;
  data->clock = tileClockFrequency;
  data->chip.exchange_bytes_per_cycle = exchangeBytesPerCycle;
  data->chip.sync_cycles = minIPUSyncDelay;
  const bool has_id = deviceManagerId != std::numeric_limits<unsigned>::max();
  return core::MakeDevice(has_id ? deviceManagerId : 0, data);
}

}  // namespace poplar
