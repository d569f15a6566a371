// Numbers with a meaning in encodings.
#ifndef popops_EncodingConstants_hpp
#define popops_EncodingConstants_hpp

/// An index that selects nothing.
#define MASKED_LABEL_CODE 0xFFFFFFFFU

/// The least number that logarithms are taken of, for half and float.
#define EPS_LOG_N_FLOAT (1.17549435e-38F)
#define EPS_LOG_N_HALF (0.000000059605F)

#endif  // popops_EncodingConstants_hpp
