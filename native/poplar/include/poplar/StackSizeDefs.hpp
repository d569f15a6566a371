// Sizes of stacks of codelets, which need none here.
#ifndef poplar_StackSizeDefs_hpp
#define poplar_StackSizeDefs_hpp

#define DEF_STACK_USAGE(size, function)
#define DEF_FUNC_CALL_PTRS(function, pointers)
#define DEF_FUNCTION_PTR_STACK_USAGE(pointer, size)
#define RECURSIVE_FUNCTION_SIZE 0

#endif  // poplar_StackSizeDefs_hpp
