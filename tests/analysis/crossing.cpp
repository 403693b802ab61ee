// SPDX-License-Identifier: BSD-3-Clause
//
// Against dense matrices over all tokens: N x N of old tokens, N x S of old by new ones, S x S of new ones.
#include <doctest/doctest.h>

#include <normplace/analysis/crossing.hpp>
#include <vector>

#include "dense_tokens.hpp"

using namespace normplace;
using namespace dense_tokens;

namespace {

constexpr std::size_t batch = 3, sequence = 4, tokens = batch * sequence;

/// Symmetric, with no pattern.
struct Kernels {
    explicit Kernels(const TokenLayout& layout) : kernel(some_kernel(layout, 3)), dense(expand(layout, kernel)) {}
    TokenKernel kernel;
    Dense dense;
};
struct Crossed {
    Crossed(const Crossing& crossing, std::size_t seed) : kernel(crossing.zero()) {
        for (std::size_t e = 0; e < kernel.size(); ++e) kernel[e] = number(seed + 3 * e);
        dense = expand_crossed(crossing, kernel);
    }
    CrossedKernel kernel;
    Dense dense;
};

void check_same(const Crossing& crossing, const CrossedKernel& kernel, const Dense& expected) {
    const Dense dense = expand_crossed(crossing, kernel);
    for (std::size_t i = 0; i < tokens; ++i)
        for (std::size_t j = 0; j < sequence; ++j) CHECK(dense[i][j] == doctest::Approx(expected[i][j]).epsilon(1e-12));
}

std::vector<TokenLayout> layouts() {
    return {TokenLayout::exchangeable(batch, sequence), TokenLayout::by_position(batch, sequence),
            TokenLayout::by_token(batch, sequence)};
}

}  // namespace

TEST_CASE("Crossing: a row for each class of old tokens, a column for each of one new sequence") {
    const Crossing one(TokenLayout::exchangeable(batch, sequence), false);
    CHECK(one.rows() == 1);
    CHECK(one.columns() == 1);
    CHECK(one.after().is_exchangeable());
    CHECK(one.after().tokens() == sequence);
    const Crossing positions(TokenLayout::by_position(batch, sequence), true);
    CHECK(positions.rows() == sequence);
    CHECK(positions.columns() == sequence);
    const Crossing all(TokenLayout::by_token(batch, sequence), true);
    CHECK(all.rows() == tokens);
    CHECK(all.columns() == sequence);
    CHECK(all.after().batch() == 1);
    CHECK(all.zero().size() == tokens * sequence);
    std::size_t expected = 0;
    all.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
        CHECK(e == expected++);
        CHECK(e == i * sequence + j);
    });
    CHECK(expected == tokens * sequence);
}

TEST_CASE("Crossing: folding sums over the tokens of each pair of classes") {
    for (const TokenLayout& layout : layouts()) {
        const Crossing crossing(layout, false);
        const Kernels g(layout);
        std::vector<double> expected(crossing.rows() * crossing.rows(), 0.0);
        for (std::size_t i = 0; i < tokens; ++i)
            for (std::size_t k = 0; k < tokens; ++k)
                expected[class_of(layout, i) * crossing.rows() + class_of(layout, k)] += g.dense[i][k];
        const FoldedKernel folded = crossing.fold(g.kernel);
        CHECK(folded.size() == expected.size());
        for (std::size_t e = 0; e < expected.size(); ++e)
            CHECK(folded[e] == doctest::Approx(expected[e]).epsilon(1e-12));
    }
}

TEST_CASE("Crossing: what two pulls along the same gradients share") {
    for (const TokenLayout& layout : layouts()) {
        const Crossing crossing(layout, false);
        const Kernels g(layout);
        const Crossed left(crossing, 5), right(crossing, 77);
        const Dense expected = product(transposed(left.dense), product(g.dense, right.dense));
        const TokenKernel result = crossing.between(left.kernel, crossing.fold(g.kernel), right.kernel);
        CHECK(result.size() == crossing.after().entries());
        for (std::size_t i = 0; i < sequence; ++i)
            for (std::size_t j = 0; j < sequence; ++j) {
                const double value = layout.is_exchangeable() ? result[i == j ? 0 : 1] : result[i * sequence + j];
                CHECK(value == doctest::Approx(expected[i][j]).epsilon(1e-11));
            }
    }
}

TEST_CASE("Crossing: averages over keys, of old and of new queries") {
    for (const TokenLayout& layout : layouts())
        for (const bool causal : {false, true}) {
            CAPTURE(causal);
            const Crossing crossing(layout, causal);
            const Crossed x(crossing, 31);
            const Dense old = average_matrix(batch, sequence, causal),
                        young = transposed(average_matrix(1, sequence, causal));
            CrossedKernel result = x.kernel;
            crossing.average_old(result);
            check_same(crossing, result, product(old, x.dense));
            result = x.kernel;
            crossing.average_new(result);
            check_same(crossing, result, product(x.dense, young));
            result = x.kernel;
            crossing.average(result);
            check_same(crossing, result, product(old, product(x.dense, young)));
        }
}

TEST_CASE("Crossing: one token, one sequence") {
    for (const TokenLayout& layout :
         {TokenLayout::exchangeable(1, 1), TokenLayout::by_position(1, 1), TokenLayout::by_token(1, 1)})
        for (const bool causal : {false, true}) {
            const Crossing crossing(layout, causal);
            TokenKernel g(layout.entries());
            g[layout.diagonal(0)] = 3.0;
            CHECK(crossing.fold(g)[0] == 3.0);
            CrossedKernel x{2.0};
            crossing.average(x);
            CHECK(x[0] == 2.0);
            CHECK(crossing.between(x, crossing.fold(g), x)[0] == 12.0);
        }
}
