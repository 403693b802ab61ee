// SPDX-License-Identifier: BSD-3-Clause
//
// attention_exchangeable.hpp, attention_blocks.hpp and self_attention_moments.hpp.
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/self_attention_moments.hpp>

using namespace normplace;

namespace {

AttentionScales xavier(double width, bool causal = false) {
    return {.width = width,
            .query = 1.0,
            .key = 1.0,
            .value = 1.0,
            .out = 1.0,
            .output_projection = true,
            .causal = causal};
}

TokenKernel spread_out(const TokenLayout& layout, double diagonal, double within, double across) {
    TokenKernel kernel(layout.entries(), across);
    if (layout.is_exchangeable()) kernel[1] = within;
    else
        for (const TokenLayout::Block& block : layout.blocks())
            for (std::size_t e = 0; block.within && e < block.size * block.size; ++e) kernel[block.first + e] = within;
    for (std::size_t i = 0; i < layout.classes(); ++i) kernel[layout.diagonal(i)] = diagonal;
    return kernel;
}

}  // namespace

TEST_CASE("the engine for exchangeable tokens and the one for blocks agree where both apply") {
    SoftmaxTable table;
    const TokenLayout scalars = TokenLayout::exchangeable(2, 6);
    for (const double within : {0.0, 0.4, 0.9}) {
        CAPTURE(within);
        AttentionMoments exact(scalars, xavier(64.0), table);
        const TokenKernel output = exact.forward(spread_out(scalars, 1.0, within, 0.1), {1.0 - within, 1.0 / 64.0});
        const TokenKernel gradient = exact.backward(spread_out(scalars, 1.0, 0.3, 0.2));
        for (const TokenLayout& layout : {TokenLayout::by_position(2, 6), TokenLayout::by_token(2, 6)}) {
            AttentionMoments blocks(layout, xavier(64.0), table);
            const TokenKernel out = blocks.forward(spread_out(layout, 1.0, within, 0.1), {1.0 - within, 1.0 / 64.0});
            const TokenKernel back = blocks.backward(spread_out(layout, 1.0, 0.3, 0.2));
            CHECK(layout.trace(out) == doctest::Approx(scalars.trace(output)).epsilon(1e-10));
            CHECK(layout.total_within(out) == doctest::Approx(scalars.total_within(output)).epsilon(1e-10));
            CHECK(layout.total(out) == doctest::Approx(scalars.total(output)).epsilon(1e-10));
            CHECK(layout.trace(back) == doctest::Approx(scalars.trace(gradient)).epsilon(1e-10));
            CHECK(layout.total(back) == doctest::Approx(scalars.total(gradient)).epsilon(1e-10));
            CHECK(blocks.squares.wq == doctest::Approx(exact.squares.wq).epsilon(1e-10));
            CHECK(blocks.squares.wk == doctest::Approx(exact.squares.wk).epsilon(1e-10));
            CHECK(blocks.squares.wv == doctest::Approx(exact.squares.wv).epsilon(1e-10));
            CHECK(blocks.squares.wo == doctest::Approx(exact.squares.wo).epsilon(1e-10));
            CHECK(blocks.squares.bq == doctest::Approx(exact.squares.bq).epsilon(1e-10));
            CHECK(blocks.squares.bv == doctest::Approx(exact.squares.bv).epsilon(1e-10));
        }
    }
}

TEST_CASE("a sequence in which every token stands twice attends as if each stood once") {
    const TokenLayout once = TokenLayout::by_token(1, 4), twice = TokenLayout::by_token(1, 8);
    const TokenKernel input = spread_out(once, 2.0, 0.5, 0.0), gradient = spread_out(once, 1.0, 0.3, 0.0);
    TokenKernel input_twice(64), gradient_twice(64);
    for (std::size_t i = 0; i < 8; ++i)
        for (std::size_t j = 0; j < 8; ++j) {
            input_twice[i * 8 + j] = input[i / 2 * 4 + j / 2];
            gradient_twice[i * 8 + j] = gradient[i / 2 * 4 + j / 2] / 4.0;  // of each twin half
        }
    SoftmaxTable table;
    detail::AttentionState state, state_twice;
    detail::attend_blocks(once, xavier(64.0), input, table, state);
    detail::attend_blocks(twice, xavier(64.0), input_twice, table, state_twice);
    CHECK(state.score_variance > 2.0);  // far from where the number of keys would not matter
    CHECK(state_twice.score_variance == doctest::Approx(state.score_variance).epsilon(1e-10));
    for (std::size_t i = 0; i < 8; ++i)
        for (std::size_t j = 0; j < 8; ++j)
            CHECK(state_twice.heads[i * 8 + j] == doctest::Approx(state.heads[i / 2 * 4 + j / 2]).epsilon(1e-10));
    AttentionSquares squares, squares_twice;
    detail::attend_blocks_backward(once, xavier(64.0), input, state, gradient, squares);
    detail::attend_blocks_backward(twice, xavier(64.0), input_twice, state_twice, gradient_twice, squares_twice);
    for (const auto square : {&AttentionSquares::wq, &AttentionSquares::wk, &AttentionSquares::wv})
        CHECK(squares_twice.*square == doctest::Approx(squares.*square).epsilon(1e-10));
}

// Of tokens that all differ, and in size as well.
TokenKernel uneven(const TokenLayout& layout) {
    const double ends[] = {0.9, -0.4, 0.2, 0.6}, sizes[] = {1.0, 0.7, 1.4, 1.1};
    TokenKernel kernel = spread_out(layout, 0.0, 0.0, 0.1);
    for (const TokenLayout::Block& block : layout.blocks())
        for (std::size_t i = 0; block.within && i < 4; ++i)
            for (std::size_t j = 0; j < 4; ++j)
                kernel[block.first + 4 * i + j] = 0.2 + ends[i] * ends[j] + (i == j ? sizes[i] : 0.0);
    return kernel;
}

TEST_CASE("a query with one key has no weights to vary, whatever the scores") {
    SoftmaxTable table;
    const TokenLayout layout = TokenLayout::by_position(2, 4);
    const TokenKernel input = uneven(layout);
    AttentionScales scales = xavier(64.0, true);
    scales.query = 3.0;
    detail::AttentionState state;
    detail::attend_blocks(layout, scales, input, table, state);
    double sum = 0.0;
    for (std::size_t j = 0; j < 4; ++j) {
        CAPTURE(j);
        sum += input[j];
        CHECK(state.heads[j] == doctest::Approx(sum / static_cast<double>(j + 1)).epsilon(1e-12));
        CHECK(state.heads[4 * j] == doctest::Approx(state.heads[j]).epsilon(1e-12));
    }
    CHECK(state.heads[5] > 1.1 * state.mean[5]);  // others have
}

TEST_CASE("the values get back what they have brought: <V, dV> = <heads, dheads>") {
    SoftmaxTable table;
    for (const bool causal : {false, true}) {
        CAPTURE(causal);
        const TokenLayout layout = TokenLayout::by_position(2, 4);
        const TokenKernel input = uneven(layout), gradient = spread_out(layout, 1.0, 0.3, 0.2);
        detail::AttentionState state;
        AttentionSquares squares;
        detail::attend_blocks(layout, xavier(64.0, causal), input, table, state);
        detail::attend_blocks_backward(layout, xavier(64.0, causal), input, state, gradient, squares);
        CHECK(squares.wv == doctest::Approx(64.0 * 64.0 * layout.inner(gradient, state.heads)).epsilon(1e-12));
    }
}

TEST_CASE("at full token alignment W_q and W_k get no gradient, W_v does (Noci et al. 2022)") {
    SoftmaxTable table;
    for (const TokenLayout& layout : {TokenLayout::exchangeable(2, 8), TokenLayout::by_position(2, 8)})
        for (const bool causal : {false, true}) {
            if (causal && layout.is_exchangeable()) continue;
            AttentionMoments attention(layout, xavier(64.0, causal), table);
            attention.forward(TokenKernel(layout.entries(), 1.0), {0.0, 1.0 / 64.0});
            attention.backward(spread_out(layout, 1.0, 0.0, 0.0));
            const double scale = attention.squares.wv;
            CHECK(scale > 0.0);
            CHECK(std::fabs(attention.squares.wq) < 1e-12 * scale);  // rounding of sums that cancel
            CHECK(std::fabs(attention.squares.wk) < 1e-12 * scale);
        }
}

TEST_CASE("behind small scores differences follow the queries linearly, through W_q, W_k, the keys, W_v and W_o") {
    SoftmaxTable table;
    const TokenLayout layout = TokenLayout::exchangeable(2, 64);
    AttentionScales scales = xavier(64.0);
    scales.query = scales.key = 1e-3;
    scales.heads = 4.0;
    AttentionMoments attention(layout, scales, table);
    const Fluctuation queries{1.0, 1.0 / 64.0};
    const TokenKernel output = attention.forward({1.0, 0.0, 0.0}, queries);
    CHECK(attention.transfer() == doctest::Approx(output[0] - output[1]).epsilon(1e-4));
    // As many keys as dimensions: tr C^4 / (tr C^2)^2 is 14 / 2^2 times 1/D, by Marchenko and Pastur.
    CHECK(attention.fresh(queries) == doctest::Approx((3.0 + 14.0 / 4.0 / 4.0) / 64.0).epsilon(1e-4));
}

TEST_CASE("without scores attention is a plain average") {
    SoftmaxTable table;
    const TokenLayout layout = TokenLayout::by_position(1, 3);
    AttentionScales scales = xavier(16.0, true);
    scales.query = scales.key = 0.0;
    AttentionMoments attention(layout, scales, table);
    // Independent tokens: the covariance of two running means is 1 / the longer one's length.
    const TokenKernel output = attention.forward(spread_out(layout, 1.0, 0.0, 0.0), {1.0, 1.0 / 16.0});
    const double expected[] = {1.0, 0.5, 1.0 / 3.0, 0.5, 0.5, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0};
    for (std::size_t e = 0; e < 9; ++e) CHECK(output[e] == doctest::Approx(expected[e]));
    attention.backward(spread_out(layout, 1.0, 0.0, 0.0));
    CHECK(attention.squares.wq == 0.0);
    CHECK(attention.squares.wk == 0.0);
    // Token 1 is read by all with weights 1, 1/2, 1/3, and so on: sum over tokens of sum of squares.
    CHECK(attention.squares.wv == doctest::Approx(256.0 * (1.0 + 2.0 / 4.0 + 3.0 / 9.0)));
    CHECK(attention.squares.bv == doctest::Approx(16.0 * 3.0));  // each query's weights add up to 1
}

TEST_CASE("one token attends to itself") {
    SoftmaxTable table;
    const TokenLayout layout = TokenLayout::exchangeable(2, 1);
    AttentionMoments attention(layout, xavier(16.0), table);
    const TokenKernel output = attention.forward({1.0, 0.0, 0.2}, {1.0, 1.0 / 16.0});
    CHECK(output[0] == doctest::Approx(1.0));
    CHECK(output[2] == doctest::Approx(0.2));
    const TokenKernel gradient = attention.backward({1.0, 0.0, 0.5});
    CHECK(gradient[0] == doctest::Approx(1.0));
    CHECK(attention.squares.wq == 0.0);
    CHECK(attention.squares.wk == 0.0);
}
