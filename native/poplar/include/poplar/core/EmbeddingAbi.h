/* Embedded operations (Embedding.hpp) for callers that do not link Poplar: plain C, found by name
   with dlsym. Errors are texts, "class: message", that the caller frees. */
#ifndef poplar_core_EmbeddingAbi_h
#define poplar_core_EmbeddingAbi_h

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct poplar_embedding poplar_embedding;
typedef struct poplar_embedding_instance poplar_embedding_instance;

typedef struct poplar_embedding_tensor {
  const char *type; /* as poplar::Type prints it */
  int32_t rank;
  const int64_t *shape;
} poplar_embedding_tensor;

/* An operation: of a registered kind, or of the functions of a library. */
typedef struct poplar_embedding_operation {
  const char *name;
  const char *attributes;
  /* The target of one replica. */
  const char *chip;
  int32_t ipus, tiles_per_ipu, replicas;
  int32_t num_inputs, num_outputs;
  const poplar_embedding_tensor *inputs, *outputs;
  /* A registered kind; "" for functions. */
  const char *kind;
  /* Functions with the signatures of TensorFlow's custom operations. `allocate` may be null. */
  void *build, *allocate;
  int32_t api_level;
  /* For each input: whether `allocate` makes it, and the output that shares its memory, or -1. */
  const uint8_t *allocates;
  const int32_t *aliased_output;
  /* Of a gradient: how many of the inputs, in front, are gradients, and then results. Else 0. */
  int32_t num_gradients, input_grad_index;
  /* A file of codelets that is added first; "" for none. */
  const char *codelets;
} poplar_embedding_operation;

/* Compiles an operation. Returns null and sets `error` if that fails. */
typedef poplar_embedding *poplar_embedding_make_t(const poplar_embedding_operation *operation,
                                                  char **error);
typedef void poplar_embedding_free_t(poplar_embedding *embedding);
/* The output that shares memory with an input, or -1. */
typedef int32_t poplar_embedding_alias_t(const poplar_embedding *embedding, int32_t input);
/* What it takes on the chip, as JSON that the caller frees. */
typedef char *poplar_embedding_describe_t(const poplar_embedding *embedding);
/* Whether replicas exchange data in it, so that it has to run for all at once. */
typedef int32_t poplar_embedding_exchanges_t(const poplar_embedding *embedding);
/* The state of an operation on one replica, or on all if `replica` is -1; not for several threads
   at a time. */
typedef poplar_embedding_instance *poplar_embedding_instantiate_t(const poplar_embedding *embedding,
                                                                  int32_t replica, char **error);
typedef void poplar_embedding_instance_free_t(poplar_embedding_instance *instance);
/* Runs it; returns null, or the error. Buffers of all replicas follow each other. */
typedef char *poplar_embedding_run_t(poplar_embedding_instance *instance, const void *const *inputs,
                                     void *const *outputs);
/* The command that compiles codelets where TENSORFLOW_IPU_POPC does not name one. */
typedef void poplar_set_popc_t(const char *command);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* poplar_core_EmbeddingAbi_h */
