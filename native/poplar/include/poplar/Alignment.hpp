// Alignment of functions of codelets, which the host's compiler chooses.
#ifndef poplar_Alignment_hpp
#define poplar_Alignment_hpp

#ifndef WORKER_ALIGN
#define WORKER_ALIGN
#endif

#endif  // poplar_Alignment_hpp
