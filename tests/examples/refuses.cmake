# Runs PROGRAM with ARGUMENTS: exit status 2, nothing on standard output, and one line on standard error that holds
# SENTENCE.
execute_process(
    COMMAND "${PROGRAM}" ${ARGUMENTS} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE error
)
if(NOT status EQUAL 2)
    message(FATAL_ERROR "exit status ${status}, expected 2: ${error}")
endif()
if(NOT output STREQUAL "")
    message(FATAL_ERROR "standard output is not empty: ${output}")
endif()
cmake_path(GET PROGRAM STEM name)
if(NOT error MATCHES "^${name}: [^\n]+\n$")
    message(FATAL_ERROR "not one sentence: ${error}")
endif()
string(FIND "${error}" "${SENTENCE}" position)
if(position EQUAL -1)
    message(FATAL_ERROR "expected '${SENTENCE}' in: ${error}")
endif()
