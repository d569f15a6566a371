# The targets of find_package(poplar) have these libraries, too.
include("${CMAKE_CURRENT_LIST_DIR}/poplar-config.cmake")
set(popart_FOUND TRUE)
