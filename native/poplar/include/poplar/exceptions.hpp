// Errors of Poplar.
#ifndef poplar_exceptions_hpp
#define poplar_exceptions_hpp

#include <stdexcept>
#include <string>

namespace poplar {

/// The base of all errors. `type` is the name of the class.
struct poplar_error : public std::runtime_error {
  std::string type;
  explicit poplar_error(const std::string &message)
      : std::runtime_error(message), type("poplar_error") {}
  explicit poplar_error(const char *message) : std::runtime_error(message), type("poplar_error") {}
};

#define POPLAR_DECLARE_ERROR(NAME, BASE)                                        \
  struct NAME : public BASE {                                                   \
    explicit NAME(const std::string &message) : BASE(message) { type = #NAME; } \
    explicit NAME(const char *message) : BASE(message) { type = #NAME; }        \
  };

POPLAR_DECLARE_ERROR(file_load_error, poplar_error)
POPLAR_DECLARE_ERROR(graph_connection_error, poplar_error)
POPLAR_DECLARE_ERROR(graph_cycle_error, poplar_error)
POPLAR_DECLARE_ERROR(graph_memory_allocation_error, poplar_error)
POPLAR_DECLARE_ERROR(graph_object_creation_error, poplar_error)
POPLAR_DECLARE_ERROR(graph_object_load_error, poplar_error)
POPLAR_DECLARE_ERROR(graph_program_compilation_error, poplar_error)
POPLAR_DECLARE_ERROR(graph_recursion_error, poplar_error)
POPLAR_DECLARE_ERROR(graph_replication_error, poplar_error)
POPLAR_DECLARE_ERROR(control_program_error, poplar_error)
POPLAR_DECLARE_ERROR(index_error, poplar_error)
POPLAR_DECLARE_ERROR(invalid_machine_model, poplar_error)
POPLAR_DECLARE_ERROR(invalid_option, poplar_error)
POPLAR_DECLARE_ERROR(invalid_tile_mapping, poplar_error)
POPLAR_DECLARE_ERROR(memory_elem_constraints_error, poplar_error)
POPLAR_DECLARE_ERROR(missing_graph_profile, poplar_error)
POPLAR_DECLARE_ERROR(missing_perf_estimate, poplar_error)
POPLAR_DECLARE_ERROR(missing_profile_data, poplar_error)
POPLAR_DECLARE_ERROR(no_environment, poplar_error)
POPLAR_DECLARE_ERROR(no_size_specified, poplar_error)
POPLAR_DECLARE_ERROR(overflow_error, poplar_error)
POPLAR_DECLARE_ERROR(parse_error, poplar_error)
POPLAR_DECLARE_ERROR(profiling_disabled, poplar_error)
POPLAR_DECLARE_ERROR(stream_connection_error, poplar_error)
POPLAR_DECLARE_ERROR(stream_memory_allocation_error, poplar_error)
POPLAR_DECLARE_ERROR(symbol_error, poplar_error)
POPLAR_DECLARE_ERROR(tensor_creation_error, poplar_error)
POPLAR_DECLARE_ERROR(tensor_io_state_error, poplar_error)
POPLAR_DECLARE_ERROR(tensor_metadata_error, poplar_error)
POPLAR_DECLARE_ERROR(type_error, poplar_error)
POPLAR_DECLARE_ERROR(unknown_field, poplar_error)
POPLAR_DECLARE_ERROR(unknown_vertex_type, poplar_error)
POPLAR_DECLARE_ERROR(runtime_error, poplar_error)
POPLAR_DECLARE_ERROR(application_runtime_error, runtime_error)
POPLAR_DECLARE_ERROR(system_runtime_error, runtime_error)
POPLAR_DECLARE_ERROR(unrecoverable_runtime_error, system_runtime_error)
POPLAR_DECLARE_ERROR(unknown_runtime_error, system_runtime_error)

#undef POPLAR_DECLARE_ERROR

/// Codelets need a function or variable that nothing defines. `output` is the linker's text.
struct link_error : public poplar_error {
  std::string output;
  explicit link_error(const std::string &message, const std::string &output = "")
      : poplar_error(message), output(output) {
    type = "link_error";
  }
};

/// How a system may go on after an error.
enum class RecoveryAction { IPU_RESET, LINK_RESET, PARTITION_RESET, FULL_RESET };

struct recoverable_runtime_error : public system_runtime_error {
  recoverable_runtime_error(RecoveryAction action, const std::string &message)
      : system_runtime_error(message), action_(action) {
    type = "recoverable_runtime_error";
  }
  RecoveryAction getRecoveryAction() const { return action_; }

 private:
  RecoveryAction action_;
};

}  // namespace poplar

#endif  // poplar_exceptions_hpp
