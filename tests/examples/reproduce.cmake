# The smallest reproduction: a page with every figure, plots and numbers; a second run, which finds its results; and one
# that was stopped, which goes on and says the same.
cmake_minimum_required(VERSION 3.23)

set(folder "${CMAKE_CURRENT_BINARY_DIR}/reproduce-smoke")
file(REMOVE_RECURSE "${folder}")
macro(reproduce)
    execute_process(
        COMMAND "${REPRODUCE}" --size smoke --output "${folder}" RESULT_VARIABLE status OUTPUT_VARIABLE output
                                                                                     ERROR_VARIABLE error
    )
    if(NOT status EQUAL 0)
        message(FATAL_ERROR "exit status ${status}: ${error}")
    endif()
endmacro()

reproduce()
foreach(figure RANGE 2 5)
    if(NOT output MATCHES "\nFigure ${figure}: ")
        message(FATAL_ERROR "no figure ${figure} in: ${output}")
    endif()
endforeach()
file(READ "${folder}/page.html" page)
file(READ "${folder}/results.json" json)
string(JSON figures LENGTH "${json}" figures)
if(NOT figures EQUAL 5) # the first step is this library's own
    message(FATAL_ERROR "${figures} figures in results.json, expected 5")
endif()
foreach(part IN ITEMS "Figure 2" "Figure 5" "does not hold|holds" "post-ln" "</html>")
    if(NOT page MATCHES "${part}")
        message(FATAL_ERROR "no '${part}' in page.html")
    endif()
endforeach()
# Figure 2 has a plot of the loss and one of the score for either optimizer and rate, each with all three warm-ups.
set(plots "")
foreach(i RANGE 5)
    string(JSON name GET "${json}" figures 0 plots ${i} name)
    string(JSON series LENGTH "${json}" figures 0 plots ${i} series)
    string(JSON points LENGTH "${json}" figures 0 plots ${i} series 1 x)
    list(APPEND plots "${name}:${series}x${points}")
endforeach()
string(CONCAT expected "figure-2-adam-0.001:3x4;figure-2-adam-0.001-bleu:3x2;figure-2-adam-0.004:3x4;"
                       "figure-2-adam-0.004-bleu:3x2;figure-2-sgd-0.1:3x4;figure-2-sgd-0.1-bleu:3x2")
if(NOT plots STREQUAL expected)
    message(FATAL_ERROR "the plots of Figure 2 are ${plots}, expected ${expected}")
endif()
find_program(gnuplot gnuplot)
if(gnuplot AND NOT page MATCHES "<svg")
    message(FATAL_ERROR "no plot in page.html")
endif()

set(first "${output}")
reproduce()
if(NOT first STREQUAL output)
    message(FATAL_ERROR "the second run says something else:\n${first}\n${output}")
endif()

file(REMOVE_RECURSE "${folder}")
execute_process(
    COMMAND timeout --foreground --preserve-status --signal INT 3 "${REPRODUCE}" --size smoke --output "${folder}" --threads 1
    RESULT_VARIABLE status ERROR_VARIABLE error
    OUTPUT_QUIET
)
if(NOT status EQUAL 130 OR NOT error STREQUAL "reproduce: stopped; the same command goes on from ${folder}\n")
    message(FATAL_ERROR "exit status ${status}, expected 130: ${error}")
endif()
reproduce()
if(NOT first STREQUAL output)
    message(FATAL_ERROR "the run that was stopped says something else:\n${first}\n${output}")
endif()
