// Ops as embedded programs of Poplar.
#ifndef TENSORFLOW_IPU_POPART_LOWERING_H_
#define TENSORFLOW_IPU_POPART_LOWERING_H_

#include <memory>
#include <string>

#include "popart/ir.hpp"

namespace popart {

// The name that the embedding knows ops by; its attributes are a key of `RegisterLowering`.
constexpr char kEmbeddingName[] = "popart";

// Keeps an op, and the program that it is of, for embeddings. Returns the key: `title`, with a
// number if that is of another op already. A title that is complete stands for all that decides
// what the op computes, so another op of that title has the same key.
std::string RegisterLowering(std::shared_ptr<Ir> ir, Op* op, const std::string& title,
                             bool complete);

// Lowers the op of a key to a graph that is dropped: throws error if it has no lowering, and what
// that throws.
void CheckLowering(const std::string& key);

}  // namespace popart

#endif  // TENSORFLOW_IPU_POPART_LOWERING_H_
