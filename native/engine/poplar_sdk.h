// The installed Poplar, which is loaded when a program needs it.
#ifndef TENSORFLOW_IPU_ENGINE_POPLAR_SDK_H_
#define TENSORFLOW_IPU_ENGINE_POPLAR_SDK_H_

#include <string>

#include "engine/shared_object.h"
#include "poplar/include/poplar/core/EmbeddingAbi.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// Whether a library is built against Poplar.
bool UsesPoplar(const DynamicSection& library);

// Functions of libpoplar.so.
struct PoplarSdk {
  poplar_embedding_make_t* make;
  poplar_embedding_free_t* free;
  poplar_embedding_alias_t* alias;
  poplar_embedding_describe_t* describe;
  poplar_embedding_exchanges_t* exchanges;
  poplar_embedding_instantiate_t* instantiate;
  poplar_embedding_instance_free_t* free_instance;
  poplar_embedding_run_t* run;

  // Loads Poplar, once.
  static tensorflow::Status Get(const PoplarSdk** sdk);

  // Loads Poplar and those of its libraries that a library needs, so that this finds them wherever
  // they are installed.
  static tensorflow::Status LoadFor(const DynamicSection& library);

  // Sets the command that compiles codelets.
  static void SetPopc(const std::string& command);
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_POPLAR_SDK_H_
