// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <normplace/text/number_names_corpus.hpp>
#include <set>
#include <string>
#include <vector>

using namespace normplace;

namespace {

std::set<std::uint64_t> intervals_of(const std::vector<std::uint64_t>& numbers, std::uint64_t length) {
    std::set<std::uint64_t> intervals;
    for (const std::uint64_t number : numbers) intervals.insert(number / length);
    return intervals;
}

void check_apart(const std::set<std::uint64_t>& a, const std::set<std::uint64_t>& b) {
    for (const std::uint64_t interval : a) CHECK(b.count(interval) == 0);
}

void check_refused(const NumberNamesOptions& options, const char* sentence) {
    CHECK_THROWS_WITH_AS(number_sets(options), sentence, std::invalid_argument);
}

}  // namespace

TEST_CASE("the sets have the sizes asked for, no number twice, and no interval in common") {
    const NumberNamesOptions options;
    const NumberSets sets = number_sets(options);
    CHECK(sets.training.size() == options.training);
    CHECK(sets.validation.size() == options.validation);
    CHECK(sets.test.size() == options.test);
    for (const auto* numbers : {&sets.training, &sets.validation, &sets.test}) {
        CHECK(std::set<std::uint64_t>(numbers->begin(), numbers->end()).size() == numbers->size());
        CHECK(*std::max_element(numbers->begin(), numbers->end()) < options.below);
    }
    const auto training = intervals_of(sets.training, 1000), validation = intervals_of(sets.validation, 1000),
               test = intervals_of(sets.test, 1000);
    check_apart(training, validation);
    check_apart(training, test);
    check_apart(validation, test);
    CHECK(training.count(0) == 1);
    // 500 numbers in 50 intervals: each has one with probability 1 - (49/50)^500 = 0.99996
    CHECK(validation.size() == 50);
    CHECK(test.size() == 50);
}

TEST_CASE("spread over digits, short numbers are there; uniform, they are rare") {
    NumberNamesOptions options;
    options.training = 6000;
    const auto shorter = [&](std::uint64_t limit) {
        const std::vector<std::uint64_t> numbers = number_sets(options).training;
        return std::count_if(numbers.begin(), numbers.end(), [&](std::uint64_t n) { return n < limit; });
    };
    CHECK(shorter(10) == 10);
    CHECK(shorter(100) == 100);
    CHECK(shorter(100000) > 3000);
    options.spread = NumberSpread::uniform;
    // 6000/10 expected, five standard deviations of 23
    CHECK(std::abs(static_cast<double>(shorter(100000)) - 600.0) < 117.0);
}

TEST_CASE("every number of a small range can be asked for, and none beyond it is there") {
    NumberNamesOptions options;
    options.below = 95;
    options.interval = 10;
    options.held_out = 0.1;  // an interval each: ten numbers, or the five of [90, 95)
    bool short_one = false;
    for (options.seed = 0; options.seed < 40; ++options.seed) {
        options.training = 75;
        options.validation = options.test = 5;
        const NumberSets sets = number_sets(options);
        CHECK(sets.training.size() == 75);
        for (const auto* numbers : {&sets.validation, &sets.test}) {
            CHECK(intervals_of(*numbers, 10).size() == 1);
            CHECK(*std::max_element(numbers->begin(), numbers->end()) < 95);
        }
        if (sets.validation[0] < 90) continue;
        short_one = true;
        options.validation = 6;
        check_refused(options,
                      "number_names_corpus: 6 validation pairs were asked for, but only 5 numbers below 95 are for "
                      "validation");
    }
    CHECK(short_one);
}

TEST_CASE("a seed fixes the corpus, on every platform") {
    NumberNamesOptions options;
    options.training = 3;
    options.validation = options.test = 1;
    const NumberSets sets = number_sets(options);
    CHECK(sets.training == std::vector<std::uint64_t>{211028, 78011, 785356});
    CHECK(sets.validation == std::vector<std::uint64_t>{387904});
    CHECK(sets.test == std::vector<std::uint64_t>{228526});
    options.seed = 2;
    CHECK(number_sets(options).training != sets.training);
}

TEST_CASE("the corpus has the numbers' German and English names") {
    NumberNamesOptions options;
    options.training = options.validation = options.test = 20;
    const NumberSets sets = number_sets(options);
    const NumberNamesCorpus corpus = number_names_corpus(options);
    const auto check = [](const ParallelCorpus& pairs, const std::vector<std::uint64_t>& numbers) {
        REQUIRE(pairs.size() == numbers.size());
        REQUIRE(pairs.target.size() == numbers.size());
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            CHECK(pairs.source[i] == german_number(numbers[i]));
            CHECK(pairs.target[i] == english_number(numbers[i]));
        }
    };
    check(corpus.training, sets.training);
    check(corpus.validation, sets.validation);
    check(corpus.test, sets.test);
}

TEST_CASE("options that give no corpus are refused") {
    check_refused({.below = 0}, "number_names_corpus: numbers below 0, expected a limit from 1 to 1000000000");
    check_refused({.below = 1000000001},
                  "number_names_corpus: numbers below 1000000001, expected a limit from 1 to 1000000000");
    check_refused({.interval = 0}, "number_names_corpus: interval is 0, expected at least 1");
    check_refused({.held_out = 0.5}, "number_names_corpus: held_out is 0.500000, expected a share in (0, 0.5)");
    check_refused({.held_out = std::numeric_limits<double>::quiet_NaN()},
                  "number_names_corpus: held_out is nan, expected a share in (0, 0.5)");
    check_refused({.below = 2000},
                  "number_names_corpus: intervals of 1000 cut the numbers below 2000 into 2, expected at least 3: for "
                  "training, validation and test");
    check_refused({.below = 1000000000, .interval = 999},
                  "number_names_corpus: intervals of 999 cut the numbers below 1000000000 into 1001002, expected at "
                  "most 1000000");
    check_refused({.training = 900001},
                  "number_names_corpus: 900001 training pairs were asked for, but only 900000 numbers below 1000000 "
                  "are for training");
    check_refused({.test = 50001},
                  "number_names_corpus: 50001 test pairs were asked for, but only 50000 numbers below 1000000 are for "
                  "test");
}

TEST_CASE("exact_match is the share that is right to the letter") {
    CHECK(exact_match({"one", "two", "three ", "Four"}, {"one", "two", "three", "four"}) == 0.5);
    CHECK(exact_match({"one"}, {"one"}) == 1.0);
    CHECK_THROWS_WITH_AS(exact_match({"one"}, {}),
                         "exact_match: 1 hypotheses and 0 references, expected as many of each and at least one",
                         std::invalid_argument);
    CHECK_THROWS_AS(exact_match({}, {}), std::invalid_argument);
}
