// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/cross_attention_moments.hpp>

using namespace normplace;

namespace {

AttentionScales scales_of(double width) { return {.width = width, .query = 1.1, .key = 0.9, .value = 0.7, .out = 1.3}; }

MemoryMoments memory_of(std::size_t batch, std::size_t tokens, const TokenKernel& kernel, double width) {
    return {TokenLayout::exchangeable(batch, tokens), kernel, {kernel[0] - kernel[1], 1.0 / width, 0.0, 0.02}};
}

// q, c and e wherever they belong, in any layout.
TokenKernel spread_out(const TokenLayout& layout, const TokenKernel& three) {
    TokenKernel kernel(layout.entries(), three[2]);
    for (const TokenLayout::Block& block : layout.blocks())
        for (std::size_t e = 0; block.within && e < block.size * block.size; ++e) kernel[block.first + e] = three[1];
    for (std::size_t i = 0; i < layout.classes(); ++i) kernel[layout.diagonal(i)] = three[0];
    return kernel;
}

}  // namespace

TEST_CASE("a memory that covaries as the queries do gives self-attention, and its gradient in two parts") {
    const TokenLayout layout = TokenLayout::exchangeable(3, 6);
    const TokenKernel input{1.2, 0.4, 0.1}, gradient{1.0, 0.3, 0.2};
    MemoryMoments memory = memory_of(3, 6, input, 64.0);
    SoftmaxTable table;
    AttentionMoments self(layout, scales_of(64.0), table);
    CrossAttentionMoments cross(layout, memory, scales_of(64.0), table);
    const TokenKernel expected = self.forward(input, memory.fluctuation),
                      output = cross.forward(input, memory.fluctuation);
    const TokenKernel back = self.backward(gradient), to_queries = cross.backward(gradient);
    for (std::size_t e = 0; e < 3; ++e) {
        CHECK(output[e] == doctest::Approx(expected[e]).epsilon(1e-12));
        CHECK(to_queries[e] + memory.gradient[e] == doctest::Approx(back[e]).epsilon(1e-12));
    }
    CHECK(cross.transfer() == doctest::Approx(self.transfer()).epsilon(1e-12));
    CHECK(cross.fresh(memory.fluctuation) == doctest::Approx(self.fresh(memory.fluctuation)).epsilon(1e-12));
    const AttentionSquares &a = cross.squares, &b = self.squares;
    CHECK(a.wq == doctest::Approx(b.wq).epsilon(1e-12));
    CHECK(a.wk == doctest::Approx(b.wk).epsilon(1e-12));
    CHECK(a.wv == doctest::Approx(b.wv).epsilon(1e-12));
    CHECK(a.wo == doctest::Approx(b.wo).epsilon(1e-12));
    CHECK(a.bq == doctest::Approx(b.bq).epsilon(1e-12));
    CHECK(a.bv == doctest::Approx(b.bv).epsilon(1e-12));
    CHECK(a.bo == doctest::Approx(b.bo).epsilon(1e-12));
    CHECK(cross.score_variance() == doctest::Approx(self.score_variance()).epsilon(1e-12));
}

TEST_CASE("queries by position that are all alike are exchangeable queries") {
    const TokenKernel input{1.2, 0.4, 0.1}, gradient{1.0, 0.3, 0.2};
    const TokenLayout scalars = TokenLayout::exchangeable(2, 5), positions = TokenLayout::by_position(2, 5);
    SoftmaxTable table;
    MemoryMoments first = memory_of(2, 9, {1.0, 0.5, 0.3}, 32.0), second = first;
    CrossAttentionMoments one(scalars, first, scales_of(32.0), table), other(positions, second, scales_of(32.0), table);
    const TokenKernel output = one.forward(input, first.fluctuation),
                      out = other.forward(spread_out(positions, input), first.fluctuation);
    CHECK(positions.trace(out) == doctest::Approx(scalars.trace(output)).epsilon(1e-12));
    CHECK(positions.total_within(out) == doctest::Approx(scalars.total_within(output)).epsilon(1e-12));
    CHECK(positions.total(out) == doctest::Approx(scalars.total(output)).epsilon(1e-12));
    const TokenKernel expected = one.backward(gradient), back = other.backward(spread_out(positions, gradient));
    CHECK(positions.trace(back) == doctest::Approx(scalars.trace(expected)).epsilon(1e-12));
    CHECK(positions.total(back) == doctest::Approx(scalars.total(expected)).epsilon(1e-12));
    for (std::size_t e = 0; e < 3; ++e) CHECK(second.gradient[e] == doctest::Approx(first.gradient[e]).epsilon(1e-12));
    CHECK(other.squares.wq == doctest::Approx(one.squares.wq).epsilon(1e-12));
    CHECK(other.squares.wk == doctest::Approx(one.squares.wk).epsilon(1e-12));
    CHECK(other.squares.wv == doctest::Approx(one.squares.wv).epsilon(1e-12));
}

TEST_CASE("without scores cross-attention is a plain average of the memory") {
    const TokenLayout layout = TokenLayout::by_position(2, 3);
    AttentionScales scales = scales_of(16.0);
    scales.query = scales.key = 0.0;
    scales.value = scales.out = 1.0;
    MemoryMoments memory = memory_of(2, 4, {1.0, 0.0, 0.0}, 16.0);
    SoftmaxTable table;
    CrossAttentionMoments attention(layout, memory, scales, table);
    const TokenKernel input = spread_out(layout, {1.0, 0.2, 0.1}), output = attention.forward(input, {});
    // Four independent tokens: their average has variance 1/4, whoever asks. Another sequence has other tokens.
    for (std::size_t e = 0; e < 9; ++e) {
        CHECK(output[e] == doctest::Approx(0.25));
        CHECK(output[9 + e] == 0.0);
    }
    CHECK(attention.fresh({}) == doctest::Approx(3.0 / 16.0));
    CHECK(attention.transfer() == 0.0);
    // Three independent gradients of 1, of which every token of the memory gets a quarter each, the same everywhere.
    const TokenKernel back = attention.backward(spread_out(layout, {1.0, 0.0, 0.0}));
    for (const double entry : back) CHECK(entry == 0.0);
    CHECK(memory.gradient[0] == doctest::Approx(3.0 / 16.0));
    CHECK(memory.gradient[1] == doctest::Approx(3.0 / 16.0));
    CHECK(memory.gradient[2] == 0.0);
    CHECK(attention.squares.wq == 0.0);
    CHECK(attention.squares.wk == 0.0);
    CHECK(attention.squares.wv == doctest::Approx(256.0 * 8.0 * 3.0 / 16.0));  // 8 tokens
    CHECK(attention.squares.bv == doctest::Approx(16.0 * 2.0 * 3.0));          // each query's weights add up to 1
    // What a second layer sends comes on top.
    attention.backward(spread_out(layout, {1.0, 0.0, 0.0}));
    CHECK(memory.gradient[0] == doctest::Approx(6.0 / 16.0));
}

TEST_CASE("a memory of one token, or of equal ones, leaves W_q and W_k no gradient") {
    const TokenLayout layout = TokenLayout::by_position(2, 3);
    SoftmaxTable table;
    for (const std::size_t tokens : {std::size_t(1), std::size_t(7)}) {
        CAPTURE(tokens);
        MemoryMoments memory = memory_of(2, tokens, {1.0, tokens == 1 ? 0.0 : 1.0, 0.2}, 16.0);
        CrossAttentionMoments attention(layout, memory, scales_of(16.0), table);
        const TokenKernel output = attention.forward(spread_out(layout, {1.0, 0.2, 0.1}), {});
        CHECK(output[0] == doctest::Approx(0.7 * 1.3));
        CHECK(output[1] == doctest::Approx(0.7 * 1.3));
        CHECK(output[9] == doctest::Approx(0.7 * 1.3 * 0.2));
        const TokenKernel back = attention.backward(spread_out(layout, {1.0, 0.0, 0.0}));
        for (const double entry : back) CHECK(entry == 0.0);
        CHECK(attention.squares.wq == 0.0);
        CHECK(attention.squares.wk == 0.0);
        CHECK(attention.squares.wv > 0.0);
    }
}
