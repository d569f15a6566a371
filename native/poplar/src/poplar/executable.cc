// Executables in files.
#include "poplar/Executable.hpp"

#include <algorithm>
#include <cstring>
#include <istream>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "access.h"
#include "archive.h"
#include "executable_data.h"
#include "poplar/Engine.hpp"
#include "target_data.h"

namespace poplar {

using core::Access;

namespace core {
namespace {

// Of the form below: an executable of another number was made by another release.
constexpr uint32_t kFormat = 1;
constexpr char kMagic[16] = "tensorflow_ipu\n";

// In front of the data of an executable.
struct Header {
  char magic[sizeof kMagic];
  uint32_t format;
  uint32_t features;  // of the processor, which the codelets need
  uint64_t bytes, checksum;
};

uint64_t Checksum(const std::string& bytes) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

// Instructions that g++ uses on this machine. Codelets are compiled for it.
uint32_t ProcessorFeatures() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return (__builtin_cpu_supports("avx") != 0) | (__builtin_cpu_supports("avx2") != 0) << 1 |
         (__builtin_cpu_supports("fma") != 0) << 2 | (__builtin_cpu_supports("avx512f") != 0) << 3 |
         (__builtin_cpu_supports("avx512bw") != 0) << 4;
#else
  return 0;
#endif
}

}  // namespace

// In the namespace of `Writer`, where the templates of archive.h find them.
template <typename A>
void Transfer(A& a, Segment& s) {
  TransferAll(a, s.source, s.target, s.count, s.size, s.source_step, s.target_step);
}
template <typename A>
void Transfer(A& a, Instruction& i) {
  TransferAll(a, i.op, i.a, i.b, i.c, i.step);
}
template <typename A>
void Transfer(A& a, Fixup& f) {
  TransferAll(a, f.at, f.target, f.in_states);
}
template <typename A>
void Transfer(A& a, Batch& b) {
  TransferAll(a, b.library, b.type, b.states, b.count, b.stride, b.first);
}
template <typename A>
void Transfer(A& a, Guard& g) {
  TransferAll(a, g.place, g.bytes, g.vertex, g.field);
}
template <typename A>
void Transfer(A& a, ComputeSetCode& c) {
  TransferAll(a, c.name, c.batches, c.tiles, c.guards, c.before, c.after);
}
template <typename A>
void Transfer(A& a, StreamCode& s) {
  TransferAll(a, s.handle, s.to_device, s.broadcast, s.bytes, s.depth);
}
template <typename A>
void Transfer(A& a, BufferCode& b) {
  TransferAll(a, b.handle, b.row_bytes, b.rows);
}
template <typename A>
void Transfer(A& a, HostAccess& h) {
  TransferAll(a, h.block, h.bytes);
}
template <typename A>
void Transfer(A& a, SwitchCode& s) {
  TransferAll(a, s.cases, s.otherwise);
}
template <typename A>
void Transfer(A& a, Argument& v) {
  TransferAll(a, v.type, v.shape, v.place, v.bytes, v.before, v.after);
}
template <typename A>
void Transfer(A& a, CallCode& c) {
  TransferAll(a, c.name, c.inputs, c.outputs);
}
template <typename A>
void Transfer(A& a, KernelTensor& t) {
  TransferAll(a, t.type, t.shape);
}
template <typename A>
void Transfer(A& a, KernelSpec& s) {
  TransferAll(a, s.name, s.parameters, s.inputs, s.outputs);
}
template <typename A>
void Transfer(A& a, LibraryOpCode& l) {
  TransferAll(a, l.spec, l.collective, l.name, l.inputs, l.outputs);
}
template <typename A>
void Transfer(A& a, ReplicaCopyCode& c) {
  TransferAll(a, c.gather, c.scatter, c.bytes, c.replicas);
}
template <typename A>
void Transfer(A& a, PrintTensorFmt& f) {
  TransferAll(a, f.summariseThreshold, f.edgeItems, f.maxLineWidth, f.digits, f.floatFormat,
              f.separator, f.openBracket, f.closeBracket);
}
template <typename A>
void Transfer(A& a, PrintCode& p) {
  TransferAll(a, p.title, p.format, p.tensor);
}
template <typename A>
void Transfer(A& a, AbortCode& c) {
  Transfer(a, c.message);
}
template <typename A>
void Transfer(A& a, InitialValue& v) {
  TransferAll(a, v.place, v.bytes, v.repeats);
}

template <typename A>
void Transfer(A& a, ExternalCode& e) {
  TransferAll(a, e.name, e.bytes);
}

template <typename A>
void Transfer(A& a, Target& target) {
  TargetData d = *Access::Data(target);
  std::string chip = d.chip.architecture;
  TransferAll(a, d.type, d.architecture, d.system, d.ipus, d.tiles_per_ipu, d.workers,
              d.memory_per_tile, d.clock, chip);
  if (!A::kReads) return;
  if (FindChip(chip) == nullptr) {
    throw poplar_error("The executable is for a chip '" + chip + "', which is not known here.");
  }
  d.chip = *FindChip(chip);
  target = Access::MakeTarget(std::make_shared<TargetData>(std::move(d)));
}

// A library of codelets as the bytes of its file.
template <typename A>
void Transfer(A& a, std::shared_ptr<const CodeletLibrary>& library) {
  std::string contents = A::kReads ? std::string() : library->Contents();
  Transfer(a, contents);
  if (A::kReads) library = CodeletLibrary::FromContents(contents);
}

template <typename A>
void Transfer(A& a, StepProfile& s) {
  TransferAll(a, s.kind, s.name, s.compute, s.exchange, s.sync, s.bytes);
}
template <typename A>
void Transfer(A& a, ComputeSetProfile& c) {
  TransferAll(a, c.name, c.vertices, c.estimated, c.cycles_by_tile);
}
template <typename A>
void Transfer(A& a, VariableProfile& v) {
  TransferAll(a, v.name, v.type, v.elements, v.bytes, v.tiles, v.constant);
}
template <typename A>
void Transfer(A& a, ProfileData& p) {
  TransferAll(a, p.vertices, p.edges, p.variables, p.compute_sets, p.variable_bytes,
              p.constant_bytes, p.vertex_bytes, p.vertex_counts, p.exchange_bytes,
              p.largest_variables, p.used_compute_sets, p.steps);
}

template <typename A>
void Transfer(A& a, ExecutableData& e) {
  TransferAll(a, e.target, e.replicas, e.options, e.memory, e.externals, e.initial,
              e.replica_indices, e.libraries, e.states, e.fixups, e.copies, e.compute_sets,
              e.streams, e.buffers, e.host_writes, e.host_reads, e.switches, e.calls, e.library_ops,
              e.replica_copies, e.prints, e.aborts, e.instructions, e.entries, e.counters,
              e.warnings, e.profile, e.floating_point_register);
}

namespace {

void CheckHeader(const Header& header, bool complete) {
  if (!complete || std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    throw poplar_error(
        "Executable::deserialize: the data are no executable of tensorflow_ipu. Executables of "
        "Graphcore's Poplar are for the chip: compile the program here.");
  }
  if (header.format != kFormat) {
    throw poplar_error("Executable::deserialize: the executable has format " +
                       std::to_string(header.format) + ", this release of tensorflow_ipu reads " +
                       std::to_string(kFormat) + ": compile the program again.");
  }
  if ((header.features & ~ProcessorFeatures()) != 0) {
    throw poplar_error(
        "Executable::deserialize: the codelets were compiled for a processor with instructions "
        "that this one lacks: compile the program again on this machine.");
  }
}

}  // namespace
}  // namespace core

Executable::Executable() = default;
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;

void Executable::serialize(std::ostream& out) const {
  if (!isAvailable()) throw poplar_error("Executable::serialize: the executable is empty.");
  std::string bytes;
  core::Writer writer(&bytes);
  core::Transfer(writer, *data_);
  core::Header header{};
  std::memcpy(header.magic, core::kMagic, sizeof core::kMagic);
  header.format = core::kFormat;
  header.features = core::ProcessorFeatures();
  header.bytes = bytes.size();
  header.checksum = core::Checksum(bytes);
  out.write(reinterpret_cast<const char*>(&header), sizeof header);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out) throw poplar_error("Executable::serialize: the stream cannot be written.");
}

Executable Executable::deserialize(std::istream& in) {
  core::Header header{};
  in.read(reinterpret_cast<char*>(&header), sizeof header);
  core::CheckHeader(header, static_cast<size_t>(in.gcount()) == sizeof header);
  std::string bytes;
  // In parts, as the number of bytes may be wrong.
  constexpr uint64_t kPart = uint64_t{1} << 24;
  while (bytes.size() < header.bytes && in) {
    const size_t done = bytes.size();
    bytes.resize(done + std::min(kPart, header.bytes - done));
    in.read(bytes.data() + done, static_cast<std::streamsize>(bytes.size() - done));
    bytes.resize(done + static_cast<size_t>(in.gcount()));
  }
  if (bytes.size() != header.bytes || core::Checksum(bytes) != header.checksum) {
    throw poplar_error("Executable::deserialize: the data are damaged or not complete.");
  }
  core::Reader reader(bytes);
  Executable executable;
  executable.data_ = std::make_shared<core::ExecutableData>();
  core::Transfer(reader, *executable.data_);
  return executable;
}

}  // namespace poplar
