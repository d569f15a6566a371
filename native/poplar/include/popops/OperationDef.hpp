// Operations of reductions. Codelets include this, too.
#ifndef popops_OperationDef_hpp
#define popops_OperationDef_hpp

namespace popops {

/// SQUARE_ADD adds squares; LOG_ADD adds numbers that are given by their logarithms.
enum class Operation { ADD, MUL, MIN, MAX, LOGICAL_AND, LOGICAL_OR, SQUARE_ADD, LOG_ADD };

}  // namespace popops

#endif  // popops_OperationDef_hpp
