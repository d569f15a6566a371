// Compiled programs: a list of instructions, and what they refer to.
#ifndef TENSORFLOW_IPU_POPLAR_EXECUTABLE_DATA_H_
#define TENSORFLOW_IPU_POPLAR_EXECUTABLE_DATA_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codelets.h"
#include "copy.h"
#include "poplar/OptionFlags.hpp"
#include "poplar/PrintTensorFmt.hpp"
#include "poplar/Program.hpp"
#include "poplar/Target.hpp"
#include "poplar/core/LibraryOp.hpp"
#include "profile_data.h"

namespace poplar::core {

enum class Op : uint8_t {
  kCopy,         // a: block
  kExecute,      // a: compute set, b: place of the exit code or -1
  kStreamIn,     // a: stream, b: block
  kStreamOut,    // a: stream, b: block
  kRemoteRead,   // a: buffer, b: block, c: rows, or -1
  kRemoteWrite,  // the same
  kLoopBegin,    // a: counter, b: repetitions
  kLoopEnd,      // a: counter, b: instruction to go on with
  kJump,         // b: instruction
  kJumpIfZero,   // a: place of a condition, b: instruction, c: bytes of the condition
  kJumpIfNotZero,
  kSwitch,         // a: table, c: place of the control
  kCall,           // b: instruction
  kReturn,         //
  kHostCall,       // a: call
  kLibraryOp,      // a: library op
  kMeet,           // a: library op of all replicas
  kReplicaCopy,    // a: replica copy
  kCycleStamp,     // a: place of the cycles, b: place of those to subtract or -1
  kFloatingPoint,  // a: place of the register, b: bits to clear, c: bits to set
  kPrint,          // a: print
  kAbort,          // a: message
};

struct Instruction {
  Op op;
  int64_t a = -1, b = -1, c = -1;
  uint32_t step = 0;  // of the profile
};

// A pointer to write into the state of a vertex when the engine is loaded.
struct Fixup {
  uint64_t at;      // in the states
  uint64_t target;  // in the states or in memory
  bool in_states;
};

// Vertices of one type, one after the other in the states.
struct Batch {
  uint32_t library, type;
  uint64_t states;  // place of the first
  uint64_t count, stride;
  uint64_t first;  // number of the first in the compute set
};

// Bytes around the elements of a field, which no vertex may change.
struct Guard {
  uint64_t place;   // of the elements
  uint64_t bytes;   // of the elements
  uint64_t vertex;  // number in the compute set
  uint32_t field;
};

constexpr uint64_t kGuardBytes = 64;
constexpr unsigned char kGuardByte = 0xa5;

struct ComputeSetCode {
  std::string name;
  std::vector<Batch> batches;
  std::vector<uint32_t> tiles;  // of the vertices, batch after batch
  std::vector<Guard> guards;    // of a checked program
  // Between elements that are not contiguous and buffers for them.
  CopyBlock before, after;
};

struct StreamCode {
  std::string handle;
  bool to_device, broadcast;  // to all replicas
  uint64_t bytes;             // of a replica
  unsigned depth;             // of buffers
};

struct BufferCode {
  std::string handle;
  uint64_t row_bytes, rows;
};

// Elements of tensors in a buffer of the host, in row-major order.
struct HostAccess {
  CopyBlock block;
  uint64_t bytes;
};

struct SwitchCode {
  std::vector<std::pair<int32_t, int64_t>> cases;
  int64_t otherwise;
};

// A tensor of a host call or a print: its place in memory if it is
// contiguous, else that of a buffer.
struct Argument {
  Type type;
  std::vector<size_t> shape;
  uint64_t place;
  uint64_t bytes;
  CopyBlock before, after;  // empty where there is no buffer
};

struct CallCode {
  std::string name;  // of a host function
  std::vector<Argument> inputs, outputs;
};

struct LibraryOpCode {
  KernelSpec spec;
  bool collective;   // of all replicas
  std::string name;  // in the program
  std::vector<Argument> inputs, outputs;
};

// Elements that go to other replicas.
struct ReplicaCopyCode {
  CopyBlock gather, scatter;  // memory to buffer, buffer to memory
  uint64_t bytes;
  std::vector<std::pair<unsigned, unsigned>> replicas;  // source, target
};

struct PrintCode {
  std::string title;
  PrintTensorFmt format;
  Argument tensor;
};

struct AbortCode {
  std::string message;
};

struct InitialValue {
  uint64_t place;
  std::vector<uint8_t> bytes;
  uint64_t repeats;
};

// A variable in memory of the caller.
struct ExternalCode {
  std::string name;
  uint64_t bytes;
};

struct ExecutableData {
  Target target;
  unsigned replicas = 1;
  OptionFlags options;
  uint64_t memory = 0;  // bytes
  std::vector<ExternalCode> externals;
  std::vector<InitialValue> initial;
  std::vector<uint64_t> replica_indices;  // places that hold the number of the replica
  std::vector<std::shared_ptr<const CodeletLibrary>> libraries;
  std::vector<uint8_t> states;
  std::vector<Fixup> fixups;
  std::vector<CopyBlock> copies;
  std::vector<ComputeSetCode> compute_sets;
  std::vector<StreamCode> streams;
  std::vector<BufferCode> buffers;
  std::map<std::string, HostAccess> host_writes, host_reads;
  std::vector<SwitchCode> switches;
  std::vector<CallCode> calls;
  std::vector<LibraryOpCode> library_ops;
  std::vector<ReplicaCopyCode> replica_copies;
  std::vector<PrintCode> prints;
  std::vector<AbortCode> aborts;
  std::vector<Instruction> instructions;
  std::vector<int64_t> entries;  // of the programs
  unsigned counters = 0;
  std::vector<std::string> warnings;
  ProfileData profile;
  int64_t floating_point_register = -1;  // its place, if the programs use it
};

struct GraphData;

// Compiles programs. Throws the errors of graphs that are not complete or not right.
std::shared_ptr<ExecutableData> Lower(const GraphData& graph,
                                      const std::vector<program::Program>& programs,
                                      const OptionFlags& options);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_EXECUTABLE_DATA_H_
