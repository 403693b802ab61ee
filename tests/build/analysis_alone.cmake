# Run as a test: the analysis wing includes nothing but itself and the standard library, and compiles fast.
# Given: COMPILER, INCLUDE_DIR.
cmake_minimum_required(VERSION 3.23)
set(source "${INCLUDE_DIR}/normplace/analysis.hpp")
set(command ${COMPILER} -std=c++20 -x c++ -I${INCLUDE_DIR})

# -M lists every header, -MM those outside the system's directories.
execute_process(COMMAND ${command} -MM "${source}" OUTPUT_VARIABLE own COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${command} -M "${source}" OUTPUT_VARIABLE all COMMAND_ERROR_IS_FATAL ANY)
foreach(list IN ITEMS own all)
    string(REPLACE "${INCLUDE_DIR}/" "" ${list} "${${list}}") # our own path may hold any word
    string(REGEX REPLACE "^[^:]*:|\\\\\n" " " ${list} "${${list}}")
    string(REGEX MATCHALL "[^ \n]+" ${list} "${${list}}")
endforeach()

list(FILTER own EXCLUDE REGEX "^normplace/(analysis[.]hpp|(placement|analysis)/[a-z0-9_]+[.]hpp)$")
if(own)
    message(FATAL_ERROR "analysis.hpp includes more than placement/ and analysis/: ${own}")
endif()
list(FILTER all INCLUDE REGEX "xtensor|xtl/|xsimd|blas|lapack|omp[.]h$")
if(all)
    message(FATAL_ERROR "analysis.hpp includes a library: ${all}")
endif()

string(TIMESTAMP begin "%s%f")
execute_process(COMMAND ${command} -O0 -c -o /dev/null "${source}" COMMAND_ERROR_IS_FATAL ANY)
string(TIMESTAMP end "%s%f")
math(EXPR milliseconds "(${end} - ${begin}) / 1000")
message(STATUS "analysis.hpp compiled in ${milliseconds} ms with -O0")
