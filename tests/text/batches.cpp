// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <normplace/text/batches.hpp>
#include <normplace/text/portable_random.hpp>
#include <numeric>
#include <vector>

using namespace normplace;

namespace {

/// Sentences of 1 to 40 tokens, and translations of about the same length.
std::vector<ExampleLength> lengths_of(std::size_t size) {
    detail::PortableRandom random(7);
    std::vector<ExampleLength> lengths;
    for (std::size_t i = 0; i < size; ++i) {
        const std::size_t source = 1 + random.below(40);
        lengths.push_back({source, source + random.below(5)});
    }
    return lengths;
}

void check_every_example_once(const std::vector<Batch>& batches, std::size_t size) {
    std::vector<std::size_t> examples;
    for (const Batch& batch : batches) {
        CHECK(!batch.empty());
        examples.insert(examples.end(), batch.begin(), batch.end());
    }
    std::sort(examples.begin(), examples.end());
    std::vector<std::size_t> all(size);
    std::iota(all.begin(), all.end(), std::size_t{0});
    CHECK(examples == all);
}

}  // namespace

TEST_CASE("every example is once in an epoch, and a batch has no more tokens or examples than it may") {
    const std::vector<ExampleLength> lengths = lengths_of(1000);
    for (const bool by_length : {true, false})
        for (const BatchOptions options :
             {BatchOptions{.tokens = 256, .by_length = by_length}, BatchOptions{.examples = 32, .by_length = by_length},
              BatchOptions{.tokens = 256, .examples = 16, .by_length = by_length}}) {
            const std::vector<Batch> batches = make_batches(lengths, options, 1, 0);
            check_every_example_once(batches, lengths.size());
            for (const Batch& batch : batches) {
                ExampleLength longest;
                for (const std::size_t i : batch)
                    longest = {std::max(longest.source, lengths[i].source),
                               std::max(longest.target, lengths[i].target)};
                if (options.tokens) {
                    CHECK(batch.size() * longest.source <= options.tokens);
                    CHECK(batch.size() * longest.target <= options.tokens);
                }
                if (options.examples) CHECK(batch.size() <= options.examples);
            }
        }
}

TEST_CASE("a batch is full when one more would exceed the limit, not before") {
    const std::vector<ExampleLength> lengths(20, {3, 4});
    CHECK(make_batches(lengths, {.tokens = 20}, 1, 0).size() == 4);
    CHECK(make_batches(lengths, {.tokens = 19}, 1, 0).size() == 5);
    CHECK(make_batches(lengths, {.tokens = 4}, 1, 0).size() == 20);
    CHECK(make_batches(lengths, {.examples = 20}, 1, 0).size() == 1);
    // The source counts as well.
    CHECK(make_batches(std::vector<ExampleLength>(20, {4, 3}), {.tokens = 20}, 1, 0).size() == 4);
    // A longer example that comes later counts for those before it: sorted 1, 1, 1, 10.
    std::vector<std::size_t> sizes;
    for (const Batch& batch : make_batches({{1, 1}, {10, 10}, {1, 1}, {1, 1}}, {.tokens = 12}, 1, 0))
        sizes.push_back(batch.size());
    std::sort(sizes.begin(), sizes.end());
    CHECK(sizes == std::vector<std::size_t>{1, 3});
}

TEST_CASE("batches of a number of examples have exactly that, except one") {
    for (const bool by_length : {true, false}) {
        std::vector<std::size_t> sizes;
        for (const Batch& batch : make_batches(lengths_of(100), {.examples = 32, .by_length = by_length}, 1, 0))
            sizes.push_back(batch.size());
        std::sort(sizes.begin(), sizes.end());
        CHECK(sizes == std::vector<std::size_t>{4, 32, 32, 32});
    }
}

TEST_CASE("seed and epoch fix the batches, and each changes them") {
    const std::vector<ExampleLength> lengths = lengths_of(500);
    for (const BatchOptions options : {BatchOptions{.tokens = 256}, BatchOptions{.examples = 32, .by_length = false}}) {
        const std::vector<Batch> first = make_batches(lengths, options, 1, 0);
        CHECK(make_batches(lengths, options, 1, 0) == first);
        const std::vector<Batch> next = make_batches(lengths, options, 1, 1);
        CHECK(next != first);
        CHECK(make_batches(lengths, options, 2, 0) != first);
        CHECK(next.size() == first.size());
        // Not only the order of the batches: which examples meet changes too.
        auto sorted = [](std::vector<Batch> batches) {
            for (Batch& batch : batches) std::sort(batch.begin(), batch.end());
            std::sort(batches.begin(), batches.end());
            return batches;
        };
        CHECK(sorted(next) != sorted(first));
    }
    CHECK(make_batches({{1, 1}, {1, 2}, {1, 3}, {1, 1}, {1, 1}}, {.examples = 2}, 1, 0) ==
          std::vector<Batch>{{4, 1}, {3, 0}, {2}});
}

TEST_CASE("batches by length come in no order of length") {
    const std::vector<ExampleLength> lengths = lengths_of(1000);
    const std::vector<Batch> batches = make_batches(lengths, {.examples = 10}, 1, 0);
    std::size_t longer = 0;
    for (std::size_t i = 1; i < batches.size(); ++i)
        longer += lengths[batches[i][0]].target > lengths[batches[i - 1][0]].target;
    // half of 99, and not 0 or 99; three standard deviations of an up-down sequence, sqrt(101 / 12)
    CHECK(longer > 40);
    CHECK(longer < 59);
}

TEST_CASE("padding is what is not tokens, and little of it when batches are by length") {
    CHECK(padding_efficiency({{1, 2}, {3, 2}}, {{0, 1}}) == doctest::Approx(8.0 / 10.0));
    CHECK(padding_efficiency({{1, 2}, {3, 2}}, {{0}, {1}}) == 1.0);
    CHECK(padding_efficiency({}, {}) == 1.0);
    CHECK_THROWS_AS(padding_efficiency({{1, 2}}, {{1}}), std::out_of_range);
    const std::vector<ExampleLength> lengths = lengths_of(2000);
    const auto efficiency = [&](bool by_length) {
        return padding_efficiency(lengths, make_batches(lengths, {.tokens = 512, .by_length = by_length}, 1, 0));
    };
    CHECK(efficiency(true) > 0.9);
    CHECK(efficiency(false) < 0.7);
}

TEST_CASE("no limit, and an example above it, are refused; no examples make no batches") {
    CHECK_THROWS_WITH_AS(make_batches({{1, 1}}, {}, 1, 0), "make_batches: neither tokens nor examples limits a batch",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(make_batches({{1, 1}, {5, 9}}, {.tokens = 8}, 1, 0),
                         "make_batches: example 1 has 9 tokens, and a batch at most 8", std::invalid_argument);
    CHECK_THROWS_AS(make_batches({{9, 5}}, {.tokens = 8}, 1, 0), std::invalid_argument);
    CHECK(make_batches({}, {.tokens = 8}, 1, 0).empty());
    const std::size_t most = std::numeric_limits<std::size_t>::max();
    CHECK(make_batches({{most, 1}, {most, 1}}, {.tokens = most}, 1, 0).size() == 2);
    CHECK(make_batches({{0, 0}, {0, 0}}, {.tokens = 1}, 1, 0).size() == 1);
}
