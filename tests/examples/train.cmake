# Runs TRAIN on models so small that each run takes a moment, and checks what it leaves.
cmake_minimum_required(VERSION 3.23)

set(folder "${CMAKE_CURRENT_BINARY_DIR}/train-${CASE}")
file(REMOVE_RECURSE "${folder}")
file(MAKE_DIRECTORY "${folder}")
set(small --layers 1 --width 16 --heads 2 --ffn 32 --pairs 200 --vocabulary 80 --batch 8 --threads 1)

# train(status arguments...): the exit status must be the given one; leaves `output` and `error`.
macro(train expected)
    execute_process(
        COMMAND "${TRAIN}" ${small} ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE error
        WORKING_DIRECTORY "${folder}"
    )
    if(NOT status EQUAL ${expected})
        message(FATAL_ERROR "exit status ${status}, expected ${expected}: ${output}${error}")
    endif()
endmacro()

function(expect text pattern)
    if(NOT text MATCHES "${pattern}")
        message(FATAL_ERROR "expected '${pattern}' in: ${text}")
    endif()
endfunction()

function(expect_same a b)
    execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files "${folder}/${a}" "${folder}/${b}" RESULT_VARIABLE differ)
    if(differ)
        message(FATAL_ERROR "${a} and ${b} differ")
    endif()
endfunction()

# Every row of the log but what a clock made: the last column.
function(expect_same_log a b)
    foreach(name IN ITEMS ${a} ${b})
        file(READ "${folder}/${name}" text)
        string(REGEX REPLACE ",[^,\n]*\n" "\n" text_${name} "${text}")
    endforeach()
    if(NOT text_${a} STREQUAL text_${b})
        message(FATAL_ERROR "${a}:\n${text_${a}}\n${b}:\n${text_${b}}")
    endif()
endfunction()

if(CASE STREQUAL "resumes")
    # Eight steps at once, and four and four, are the same to the bit; with dropout, clipping and accumulation.
    set(run --every 4 --dropout 0.2 --clip 1 --accumulate 2 --label-smoothing 0.1 --warm-up 3)
    train(0 ${run} --steps 8 --checkpoint straight --log straight.csv)
    expect("${output}" "test: BLEU [0-9.]+, exact match")
    train(0 ${run} --steps 4 --checkpoint halves --log halves.csv)
    train(0 ${run} --steps 8 --checkpoint halves --log halves.csv --resume)
    expect_same(straight halves)
    expect_same_log(straight.csv halves.csv)
    # Another model is refused, and what was there stays.
    train(1 ${run} --steps 8 --checkpoint halves --resume --activation gelu)
    expect("${error}" "^train: checkpoint 'halves': its activation is \"relu\", this run's is \"gelu\"\n$")
    expect_same(straight halves)
    # Half a file is.
    file(WRITE "${folder}/broken" "abc")
    train(1 ${run} --checkpoint broken --resume)
    expect("${error}" "^train: [^\n]*broken[^\n]*\n$")
elseif(CASE STREQUAL "interrupted")
    # More steps than there is time for: the signal comes in the middle.
    set(run --steps 100000 --every 100000 --checkpoint stopped --log stopped.csv)
    execute_process(
        COMMAND timeout --foreground --signal INT 3 "${TRAIN}" ${small} ${run} OUTPUT_VARIABLE output ERROR_VARIABLE error
        WORKING_DIRECTORY "${folder}"
    )
    expect("${error}" "train: stopped after step ([0-9]+); --resume goes on from stopped\n$")
    string(REGEX MATCH "step ([0-9]+)" ignored "${error}")
    math(EXPR more "${CMAKE_MATCH_1} + 5")
    train(0 --every 100000 --steps ${more} --checkpoint stopped --log stopped.csv --resume)
    train(0 --every 100000 --steps ${more} --checkpoint straight)
    expect_same(straight stopped)
    # More sentences to translate than there is time for: the signal comes when all steps are done, and is heard as
    # between steps.
    string(REPEAT "das haus ist gross\n" 100 source)
    string(REPEAT "the house is big\n" 100 target)
    file(WRITE "${folder}/de" "${source}")
    file(WRITE "${folder}/en" "${target}")
    string(REPEAT "${source}" 300 source)
    string(REPEAT "${target}" 300 target)
    file(WRITE "${folder}/test.de" "${source}")
    file(WRITE "${folder}/test.en" "${target}")
    foreach(steps IN ITEMS 2 4)
        execute_process(
            COMMAND timeout --foreground --preserve-status --signal INT 4 "${TRAIN}" ${small} --source de --target en
                    --test-source test.de --test-target test.en --beam 16 --steps ${steps} --every 2
                    --checkpoint translated --log translated.csv --resume
            RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE error
            WORKING_DIRECTORY "${folder}"
        )
        expect("${status}" "^130$")
        expect("${error}" "^train: stopped after step ${steps}; --resume goes on from translated\n$")
    endforeach()
    expect("${output}" "going on after step 2\n")
    file(READ "${folder}/translated.csv" log)
    expect("${log}" "^step,[^\n]*\n2,[^\n]*\n4,[^\n]*\n$")
elseif(CASE STREQUAL "diverges")
    train(1 --steps 400 --optimizer sgd --learning-rate 1e6 --warm-up 0 --checkpoint diverged --every 1)
    expect("${error}" "^train: the run diverged: [^\n]*step [0-9]+: [^\n]*(finite|nan|inf|limit)[^\n]*\n$")
elseif(CASE STREQUAL "tasks")
    foreach(placement IN ITEMS post-ln pre-ln none res-post-norm peri-ln deep-norm ln-scaling ngpt)
        train(0 --steps 2 --placement ${placement})
        expect("${output}" "\n       2 ")
    endforeach()
    train(0 --task lm --steps 3 --sequence 8)
    train(0 --task mlm --steps 3 --sequence 8 --tied none --activation gelu)
    expect("${output}" "\n       3 ")
elseif(CASE STREQUAL "text")
    set(source "")
    set(target "")
    foreach(i RANGE 200)
        math(EXPR j "(${i} * 7) % 31")
        string(APPEND source "das haus ${j} ist gross\n")
        string(APPEND target "the house ${j} is big\n")
    endforeach()
    file(WRITE "${folder}/de" "${source}")
    file(WRITE "${folder}/en" "${target}")
    train(0 --source de --target en --test-source de --test-target en --steps 3 --batch-tokens 200 --output hypotheses
          --vocabulary-file pieces --beam 2)
    expect("${output}" "de to en: 197 pairs to train on, 4 to validate, 201 to test")
    file(STRINGS "${folder}/hypotheses" lines)
    file(SIZE "${folder}/pieces" size)
    if(size EQUAL 0)
        message(FATAL_ERROR "no vocabulary was written")
    endif()
    file(APPEND "${folder}/de" "eine zeile mehr\n")
    train(1 --source de --target en --steps 3)
    expect("${error}" "^train: de has 202 lines and en has 201: line i of one must be the translation of line i")
    train(0 --task lm --text en --steps 3 --sequence 8)
elseif(CASE STREQUAL "optimizers")
    foreach(optimizer IN ITEMS adam adamw radam sgd)
        foreach(schedule IN ITEMS inverse-square-root constant linear cosine step)
            train(0 --steps 3 --optimizer ${optimizer} --schedule ${schedule} --weight-decay 0.01 --momentum 0.9)
        endforeach()
    endforeach()
endif()
