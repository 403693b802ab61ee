// SPDX-License-Identifier: BSD-3-Clause
//
// nu = (tr K G)^2 / tr(K G K G) against dense matrices over all tokens.
#include <doctest/doctest.h>

#include <limits>
#include <normplace/analysis/effective_freedom.hpp>
#include <vector>

#include "dense_tokens.hpp"

using namespace normplace;
using namespace dense_tokens;

namespace {

double freedom_of(const Dense& k, const Dense& g) {
    const Dense pulled = product(k, g);
    return trace(pulled) * trace(pulled) / trace(product(pulled, pulled));
}

std::vector<TokenLayout> layouts(std::size_t batch, std::size_t sequence) {
    return {TokenLayout::exchangeable(batch, sequence), TokenLayout::by_position(batch, sequence),
            TokenLayout::by_token(batch, sequence)};
}

TokenKernel identity(const TokenLayout& layout) {
    TokenKernel result(layout.entries());
    for (std::size_t i = 0; i < layout.classes(); ++i) result[layout.diagonal(i)] = 1.0;
    return result;
}

}  // namespace

TEST_CASE("effective_freedom: against brute force, for every layout and shape") {
    for (const std::size_t batch : {1u, 2u, 4u})
        for (const std::size_t sequence : {1u, 2u, 5u})
            for (const TokenLayout& layout : layouts(batch, sequence)) {
                CAPTURE(batch);
                CAPTURE(sequence);
                CAPTURE(layout.classes());
                const Crossing crossing(layout, true);
                const TokenKernel k = some_kernel(layout, 1), g = some_kernel(layout, 1000);
                const double expected = freedom_of(expand(layout, k), expand(layout, g));
                CHECK(effective_freedom(crossing, k, g) == doctest::Approx(expected).epsilon(1e-10));
            }
}

TEST_CASE("effective_freedom: 1 when all tokens are alike, as many as tokens when each is by itself") {
    for (const TokenLayout& layout : layouts(3, 4)) {
        const Crossing crossing(layout, false);
        const TokenKernel alike(layout.entries(), 2.0), apart = identity(layout), some = some_kernel(layout, 8);
        CHECK(effective_freedom(crossing, alike, alike) == doctest::Approx(1.0));
        CHECK(effective_freedom(crossing, alike, some) == doctest::Approx(1.0));
        CHECK(effective_freedom(crossing, some, alike) == doctest::Approx(1.0));
        CHECK(effective_freedom(crossing, apart, apart) == doctest::Approx(12.0));
    }
}

TEST_CASE("effective_freedom: the size of inputs and of gradients does not matter, no gradient is one direction") {
    for (const TokenLayout& layout : layouts(2, 3)) {
        const Crossing crossing(layout, false);
        const TokenKernel k = some_kernel(layout, 4), g = some_kernel(layout, 9);
        TokenKernel small = g;
        for (double& entry : small) entry *= 1e-30;
        CHECK(effective_freedom(crossing, k, small) == doctest::Approx(effective_freedom(crossing, k, g)));
        CHECK(effective_freedom(crossing, k, TokenKernel(layout.entries())) == 1.0);
        CHECK(effective_freedom(crossing, k, TokenKernel(layout.entries(), std::numeric_limits<double>::quiet_NaN())) ==
              1.0);
    }
}
