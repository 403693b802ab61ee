# Run as a test: a consumer without a build system, who gives the compiler the include directory and, for everything, a
# BLAS. Given: COMPILER, SOURCE, OUTPUT, INCLUDE_DIRS and LIBRARIES (lists).
cmake_minimum_required(VERSION 3.23)
list(REMOVE_DUPLICATES INCLUDE_DIRS)
list(TRANSFORM INCLUDE_DIRS PREPEND -I)
execute_process(
    COMMAND ${COMPILER} -std=c++20 ${INCLUDE_DIRS} ${SOURCE} -o ${OUTPUT} ${LIBRARIES} COMMAND_ERROR_IS_FATAL ANY
                                                                              COMMAND_ECHO STDOUT
)
execute_process(COMMAND ${OUTPUT} COMMAND_ERROR_IS_FATAL ANY)
