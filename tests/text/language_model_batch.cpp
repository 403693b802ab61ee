// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <normplace/text/language_model_batch.hpp>
#include <numeric>
#include <vector>

using namespace normplace;
using Ids = std::vector<int>;

namespace {

Ids numbers(int count) {
    Ids ids(static_cast<std::size_t>(count));
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
}

/// Ordinary ids 5, 6, ..., and after them padding (0) in every row.
IdTable padded_rows(std::size_t rows, std::size_t ordinary, std::size_t padding, int vocabulary) {
    IdTable table(rows, ordinary + padding, 0);
    for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t i = 0; i < ordinary; ++i)
            table(row, i) = 5 + static_cast<int>(row * 31 + i * 7) % (vocabulary - 5);
    return table;
}

}  // namespace

TEST_CASE("a window's targets are its next tokens") {
    const LanguageModelBatch batch = window_batch(numbers(13), 4, {2, 0});
    CHECK(batch.tokens.rows == 2);
    CHECK(batch.tokens.columns == 4);
    CHECK(batch.tokens.ids == Ids{8, 9, 10, 11, 0, 1, 2, 3});
    CHECK(batch.targets.rows == 2);
    CHECK(batch.targets.ids == Ids{9, 10, 11, 12, 1, 2, 3, 4});
    CHECK(window_count(13, 4) == 3);
    CHECK(window_count(12, 4) == 2);  // the last window's last token has no target
    CHECK(window_count(0, 4) == 0);
}

TEST_CASE("every window is once in an epoch, and epochs differ") {
    const std::vector<Batch> first = window_batches(1001, 10, 32, 1, 0);
    CHECK(first.size() == 4);
    Batch all;
    for (std::size_t b = 0; b < first.size(); ++b) {
        CHECK(first[b].size() == (b + 1 < first.size() ? 32 : 4));
        all.insert(all.end(), first[b].begin(), first[b].end());
    }
    std::sort(all.begin(), all.end());
    Batch windows(100);
    std::iota(windows.begin(), windows.end(), std::size_t{0});
    CHECK(all == windows);
    CHECK(first[0] != Batch(windows.begin(), windows.begin() + 32));
    CHECK(window_batches(1001, 10, 32, 1, 0) == first);
    CHECK(window_batches(1001, 10, 32, 1, 1) != first);
    CHECK(window_batches(1001, 10, 32, 2, 0) != first);
    CHECK(window_batches(11, 2, 2, 1, 0) == std::vector<Batch>{{1, 3}, {0, 2}, {4}});
}

TEST_CASE("streams without a window are refused") {
    CHECK_THROWS_WITH_AS(window_batches(10, 10, 2, 1, 0),
                         "window_batches: a stream of 10 tokens has no window of 10 tokens and a target after each",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(window_batches(10, 2, 0, 1, 0), "window_batches: batch is 0, expected at least 1",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(window_count(10, 0), "window_count: sequence is 0, expected at least 1",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(window_batch(numbers(13), 4, {3}), "window_batch: window 3 is not one of the 3 of the stream",
                         std::invalid_argument);
}

TEST_CASE("of each row's ordinary tokens 15 % are hidden, and only those are targets") {
    const int vocabulary = 105;
    const IdTable tokens = padded_rows(500, 40, 10, vocabulary);
    const LanguageModelBatch batch = mask_tokens(tokens, {.vocabulary = vocabulary}, 1, 0);
    double masked = 0, random = 0, same = 0;
    std::vector<int> at(50), drawn(static_cast<std::size_t>(vocabulary));
    for (std::size_t row = 0; row < 500; ++row) {
        int targets = 0;
        for (std::size_t i = 0; i < 50; ++i) {
            const int original = tokens(row, i), token = batch.tokens(row, i), target = batch.targets(row, i);
            if (target == no_target) {
                REQUIRE(token == original);
                continue;
            }
            REQUIRE(target == original);
            REQUIRE(i < 40);
            ++targets;
            ++at[i];
            if (token == 4) ++masked;
            else if (token == original) ++same;
            else {
                REQUIRE(token >= 5);
                REQUIRE(token < vocabulary);
                ++random;
                ++drawn[static_cast<std::size_t>(token)];
            }
        }
        REQUIRE(targets == 6);
    }
    // Of 3000, five standard deviations: 5 sqrt(3000 p (1 - p)); one random token in a hundred is the one it replaces.
    CHECK(std::abs(masked - 2400.0) < 110.0);
    CHECK(std::abs(random - 297.0) < 82.0);
    CHECK(std::abs(same - 303.0) < 83.0);
    // 75 expected at every place, and 3 of every id
    CHECK(*std::min_element(at.begin(), at.begin() + 40) > 35);
    CHECK(*std::max_element(at.begin(), at.end()) < 115);
    CHECK(std::count(drawn.begin() + 5, drawn.end(), 0) < 20);
}

TEST_CASE("a short row hides a token, and a row of padding none") {
    const MaskingOptions options{.vocabulary = 50};
    const auto targets = [&](const IdTable& tokens) {
        const LanguageModelBatch batch = mask_tokens(tokens, options, 1, 0);
        return batch.targets.ids.size() -
               static_cast<std::size_t>(std::count(batch.targets.ids.begin(), batch.targets.ids.end(), no_target));
    };
    CHECK(targets(padded_rows(1, 1, 3, 50)) == 1);
    CHECK(targets(padded_rows(1, 0, 3, 50)) == 0);
    CHECK(targets(padded_rows(1, 0, 0, 50)) == 0);
    CHECK(targets(padded_rows(1, 10, 0, 50)) == 2);  // 1.5 is rounded up
}

TEST_CASE("seed and step fix what is hidden, and each changes it") {
    const IdTable tokens = padded_rows(4, 40, 0, 50);
    const MaskingOptions options{.vocabulary = 50};
    const auto hidden = [&](std::uint64_t seed, std::uint64_t step) {
        return mask_tokens(tokens, options, seed, step).tokens.ids;
    };
    CHECK(hidden(1, 0) == hidden(1, 0));
    CHECK(hidden(1, 1) != hidden(1, 0));
    CHECK(hidden(2, 0) != hidden(1, 0));
}

TEST_CASE("masking that cannot be is refused") {
    const IdTable tokens = padded_rows(1, 4, 0, 50);
    CHECK_THROWS_WITH_AS(mask_tokens(tokens, {}, 1, 0),
                         "mask_tokens: mask 4, first ordinary id 5 and vocabulary 0, expected 0 <= mask and 0 <= first "
                         "ordinary id < vocabulary",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(mask_tokens(tokens, {.vocabulary = 50, .chosen = 1.5}, 1, 0),
                         "mask_tokens: chosen is 1.500000, expected a share in [0, 1]", std::invalid_argument);
    CHECK_THROWS_WITH_AS(mask_tokens(tokens, {.vocabulary = 50, .masked = 0.8, .random = 0.3}, 1, 0),
                         "mask_tokens: masked + random is 1.100000, expected a share in [0, 1]", std::invalid_argument);
    CHECK_THROWS_AS(mask_tokens(tokens, {.vocabulary = 50, .chosen = std::nan("")}, 1, 0), std::invalid_argument);
}
