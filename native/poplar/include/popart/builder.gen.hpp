// Builders of models.
#ifndef popart_builder_gen_hpp
#define popart_builder_gen_hpp

#include <popart/builder.hpp>

#endif  // popart_builder_gen_hpp
