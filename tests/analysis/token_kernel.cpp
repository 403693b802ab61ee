// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/analysis/token_kernel.hpp>

using namespace normplace;

TEST_CASE("every layout counts every pair of the batch once") {
    constexpr std::size_t batch = 3, sequence = 4;
    constexpr double tokens = batch * sequence;
    for (const TokenLayout& layout :
         {TokenLayout::exchangeable(batch, sequence), TokenLayout::by_position(batch, sequence),
          TokenLayout::by_token(batch, sequence)}) {
        const TokenKernel ones(layout.entries(), 1.0);
        CHECK(layout.total(ones) == doctest::Approx(tokens * tokens));
        CHECK(layout.total_within(ones) == doctest::Approx(batch * sequence * sequence));
        CHECK(layout.trace(ones) == doctest::Approx(tokens));
        CHECK(layout.inner(ones, ones) == doctest::Approx(tokens * tokens));
    }
}

TEST_CASE("layouts agree on sums of one kernel") {
    // K_ii = 2, 0.5 within a sequence, 0.25 across.
    double totals[3], traces[3];
    int at = 0;
    for (const TokenLayout& layout :
         {TokenLayout::exchangeable(2, 5), TokenLayout::by_position(2, 5), TokenLayout::by_token(2, 5)}) {
        TokenKernel kernel(layout.entries(), 0.25);
        if (layout.is_exchangeable()) kernel[1] = 0.5;
        else
            for (const TokenLayout::Block& block : layout.blocks())
                for (std::size_t e = 0; block.within && e < block.size * block.size; ++e) kernel[block.first + e] = 0.5;
        for (std::size_t i = 0; i < layout.classes(); ++i) kernel[layout.diagonal(i)] = 2.0;
        totals[at] = layout.total(kernel);
        traces[at++] = layout.trace(kernel);
    }
    CHECK(totals[0] == doctest::Approx(10 * 2.0 + 10 * 4 * 0.5 + 10 * 5 * 0.25));
    CHECK(totals[1] == doctest::Approx(totals[0]));
    CHECK(totals[2] == doctest::Approx(totals[0]));
    CHECK(traces[1] == doctest::Approx(traces[0]));
    CHECK(traces[2] == doctest::Approx(traces[0]));
}
