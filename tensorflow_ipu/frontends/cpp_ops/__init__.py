"""Operations of PopART and PopXL that users bring in C++ libraries."""
