# Checks of the JSON in `output`, for the tests that run a program.

# The JSON type at a path in `output`: NUMBER, NULL, STRING, OBJECT, ...
function(expect_type type)
    string(JSON found ERROR_VARIABLE fault TYPE "${output}" ${ARGN})
    if(NOT found STREQUAL type)
        message(FATAL_ERROR "${ARGN} is ${found}, expected ${type} (${fault})")
    endif()
endfunction()

function(expect_value value)
    string(JSON found ERROR_VARIABLE fault GET "${output}" ${ARGN})
    if(NOT found STREQUAL value)
        message(FATAL_ERROR "${ARGN} is '${found}', expected '${value}' (${fault})")
    endif()
endfunction()
