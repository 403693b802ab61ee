// SPDX-License-Identifier: BSD-3-Clause
//
// Norms inside the sublayers in moments: what they must leave alone, and what they must not. Without them,
// attention_moments.cpp has attention.
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/feed_forward_moments.hpp>
#include <normplace/analysis/inner_norms.hpp>
#include <normplace/analysis/self_attention_moments.hpp>

using namespace normplace;

namespace {

const TokenLayout layout = TokenLayout::exchangeable(2, 8);
const TokenKernel input{1.0, 0.4, 0.1}, gradient{1.0, 0.3, 0.05};
constexpr double width = 64.0;

AttentionScales scales_of(double query, double key, double value, const SublayerNorms& norms) {
    return {.width = width,
            .query = query,
            .key = key,
            .value = value,
            .out = 0.8,
            .heads = 4.0,
            .norms = norms,
            .epsilon = 1e-14};
}

struct Attended {
    SoftmaxTable table;
    AttentionMoments moments;
    TokenKernel output, input_gradient;
    explicit Attended(const AttentionScales& scales) : moments(layout, scales, table) {
        output = moments.forward(input, {0.6, 1.0 / width, 0.0, 0.0});
        input_gradient = moments.backward(gradient);
    }
};

}  // namespace

TEST_CASE("a norm of queries, keys or values makes the matrix's scale immaterial") {
    const SublayerNorms all{.query = true, .key = true, .value = true};
    // At scale 1 a norm changes nothing but the lengths of queries and keys.
    const Attended small(scales_of(0.1, 0.2, 0.3, all)), large(scales_of(10.0, 0.05, 7.0, all)),
        plain(scales_of(1.0, 1.0, 1.0, {.query = true, .key = true})), unnormed(scales_of(1.0, 1.0, 1.0, {}));
    for (std::size_t e = 0; e < 3; ++e) {
        CHECK(small.output[e] == doctest::Approx(large.output[e]));
        CHECK(small.output[e] == doctest::Approx(plain.output[e]));  // what they read has second moment 1
        CHECK(small.input_gradient[e] == doctest::Approx(plain.input_gradient[e]));
        CHECK(plain.output[e] == doctest::Approx(unnormed.output[e]).epsilon(0.01));  // K is 16
        CHECK(plain.input_gradient[e] == doctest::Approx(unnormed.input_gradient[e]).epsilon(0.01));
    }
    // The gradient of a matrix that is multiplied by c is divided by c.
    CHECK(small.moments.squares.wq == doctest::Approx(plain.moments.squares.wq / 0.1));
    CHECK(large.moments.squares.wq == doctest::Approx(plain.moments.squares.wq / 10.0));
    CHECK(large.moments.squares.wk == doctest::Approx(plain.moments.squares.wk / 0.05));
    CHECK(large.moments.squares.wv == doctest::Approx(plain.moments.squares.wv / 7.0));
    CHECK(large.moments.squares.wo == doctest::Approx(plain.moments.squares.wo));
    // Gains and biases see what a matrix D x D of that input sees, divided by D: query, key, value.
    REQUIRE(small.moments.inner_norms.size() == 3);
    CHECK(small.moments.inner_norms[0].gain == doctest::Approx(plain.moments.squares.wq / width));
    CHECK(small.moments.inner_norms[2].gain == doctest::Approx(plain.moments.squares.wv / width));
    CHECK(small.moments.inner_norms[2].bias == doctest::Approx(plain.moments.squares.bv));
    CHECK(small.moments.inner_norms[1].bias == 0.0);
    CHECK(std::isnan(small.moments.squares.bk));
    CHECK(unnormed.moments.squares.bk == 0.0);
}

TEST_CASE("a factor behind the norms of queries and keys: twice a gain's gradient, in units of sqrt(K)") {
    const SublayerNorms norms{.query = true, .key = true, .query_key_scale = true, .head_scale = true};
    const Attended both(scales_of(0.1, 0.2, 0.3, norms));
    REQUIRE(both.moments.inner_gates.size() == 2);
    const double gain = both.moments.inner_norms[0].gain, head_width = width / 4.0;
    CHECK(both.moments.inner_norms[1].gain == doctest::Approx(gain));  // the key's, the same number
    CHECK(both.moments.inner_gates[0] == doctest::Approx(4.0 / head_width * gain));
}

TEST_CASE("a norm of the heads: W_o reads second moment 1, and W_v's scale is immaterial behind it") {
    const SublayerNorms heads{.heads = true};
    const Attended one(scales_of(0.5, 0.5, 1.0, heads)), four(scales_of(0.5, 0.5, 4.0, heads)),
        plain(scales_of(0.5, 0.5, 1.0, {}));
    CHECK(one.output[0] == doctest::Approx(0.8));
    CHECK(one.output[1] / one.output[0] == doctest::Approx(plain.output[1] / plain.output[0]));
    for (std::size_t e = 0; e < 3; ++e) {
        CHECK(one.output[e] == doctest::Approx(four.output[e]));
        CHECK(one.input_gradient[e] == doctest::Approx(four.input_gradient[e]));
        CHECK(one.input_gradient[e] == doctest::Approx(plain.input_gradient[e] * 0.8 / plain.output[0]));
    }
    REQUIRE(one.moments.inner_norms.size() == 1);
    // The gain sees G at W_o's input, 0.8 of that at the output: D 0.8 sum G o K, of which W_o has D^2 sum G o K.
    CHECK(one.moments.inner_norms[0].gain == doctest::Approx(0.8 * one.moments.squares.wo / width));
}

TEST_CASE("a factor for each head, of which a norm behind takes away what all have in common") {
    const Attended alone(scales_of(0.5, 0.5, 1.0, {.head_scale = true}));
    REQUIRE(alone.moments.inner_gates.size() == 1);
    CHECK(alone.moments.inner_gates[0] == doctest::Approx(0.8 * alone.moments.squares.wo / width));
    Attended before(scales_of(0.5, 0.5, 1.0, {.head_scale = true}));
    before.moments.before_norm = true;
    before.moments.backward(gradient);
    CHECK(before.moments.inner_gates[0] == doctest::Approx(0.75 * alone.moments.inner_gates[0]));
}

TEST_CASE("a norm of the hidden units: W_2 reads second moment 1, without the units' mean where it is taken away") {
    ActivationKernel kernel(relu);
    FeedForwardScales scales{
        .width = width, .feed_forward = 256.0, .linear1 = 2.0, .linear2 = 0.5, .hidden_norm = true, .epsilon = 1e-14};
    FeedForwardMoments centred(layout, scales, kernel);
    const TokenKernel output = centred.forward(input, {});
    CHECK(output[0] == doctest::Approx(0.5));
    // ReLU of N(0, q) has mean sqrt(q / 2 pi) and square q / 2; of two, kappa(r) q.
    const auto kappa = [](double r) {
        return (std::sqrt(1.0 - r * r) + r * (3.14159265358979 - std::acos(r))) / 6.28318530717959;
    };
    const double mean = 1.0 / 6.28318530717959;
    CHECK(output[1] == doctest::Approx(0.5 * (kappa(0.4) - mean) / (0.5 - mean)));
    scales.linear1 = 20.0;
    FeedForwardMoments larger(layout, scales, kernel);
    CHECK(larger.forward(input, {})[1] == doctest::Approx(output[1]));
    scales.hidden_centred = false;
    FeedForwardMoments divided(layout, scales, kernel);
    CHECK(divided.forward(input, {})[1] == doctest::Approx(0.5 * kappa(0.4) / 0.5));
    centred.backward(gradient);
    REQUIRE(centred.inner_norms.size() == 1);
    CHECK(centred.inner_norms[0].gain == doctest::Approx(0.5 * centred.squares.w2 / 256.0));
    CHECK(centred.inner_norms[0].bias == doctest::Approx(0.5 * centred.squares.b2));
    larger.backward(gradient);
    CHECK(larger.squares.w1 == doctest::Approx(centred.squares.w1 / 10.0));
}
