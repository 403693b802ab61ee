// SPDX-License-Identifier: BSD-3-Clause
//
// The end of a stack, where the expectations have closed forms: a uniform prediction, and two classes, whose
// concentration and loss are integrals over one Gaussian. Expected norms of gradients follow by Isserlis' theorem.
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/loss_moments.hpp>
#include <numbers>

using namespace normplace;
using detail::loss_moments;
using detail::LossMoments;

namespace {

constexpr double table_error = 2e-4;  // SoftmaxTable's 1e-4, and that of what is divided by or added to

ReferenceModel model_of(std::size_t batch, std::size_t sequence, std::size_t vocabulary, double epsilon = 1e-12) {
    ReferenceModel model;
    model.batch = batch;
    model.sequence = sequence;
    model.width = 64;
    model.vocabulary = vocabulary;
    model.epsilon = epsilon;
    return model;
}

LossMoments of_random_tokens(const ReferenceModel& model, const TokenKernel& stream, bool final_norm) {
    SoftmaxTable table;
    return loss_moments(detail::random_tokens(model), model, stream, final_norm, table);
}

// E f(d) of d ~ N(0, 2v), the difference of two classes' logits.
template <class Function>
double over_difference(double v, Function&& f) {
    double sum = 0.0;
    constexpr double step = 1e-3;
    for (double z = -9.0; z <= 9.0; z += step)
        sum += std::exp(-0.5 * z * z) * f(z * std::sqrt(2.0 * v)) * step / std::sqrt(2.0 * std::numbers::pi);
    return sum;
}
double two_class_concentration(double v) {
    return over_difference(v, [](double d) {
        const double p = 1.0 / (1.0 + std::exp(-d));
        return p * p + (1.0 - p) * (1.0 - p);
    });
}

/// What the gradient along the hidden state gives to the norm whose value that is.
NormSquares last_norm(const LossMoments& moments, const TokenLayout& layout) {
    return leaning(layout, 64.0, moments.lean, moments.hidden, moments.hidden, moments.hidden);
}
NormSquares last_norm(const LossMoments& moments, std::size_t sequence) {
    return last_norm(moments, TokenLayout::exchangeable(1, sequence));
}

}  // namespace

TEST_CASE("loss_moments: a stream of nothing predicts uniformly") {
    // Each token's dLoss/dlogits is (1/V - y)/N, with square (1 - 1/V)/N^2, and the gradients of tokens with different
    // targets are as often along as against each other.
    const ReferenceModel model = model_of(2, 3, 7);
    const LossMoments moments = of_random_tokens(model, {0.0, 0.0, 0.0}, false);
    CHECK(moments.loss == doctest::Approx(std::log(7.0)));
    CHECK(moments.readout == 0.0);
    CHECK(moments.gradient[0] == doctest::Approx((1.0 - 1.0 / 7.0) / 36.0 / 64.0));
    CHECK(moments.gradient[1] == doctest::Approx(0.0).scale(1e-4));
    CHECK(moments.gradient[2] == doctest::Approx(0.0).scale(1e-4));
    CHECK(moments.final_norm.gain == 0.0);
    CHECK(moments.final_norm.bias == 0.0);
}

TEST_CASE("loss_moments: tokens that share their target share their gradient") {
    const ReferenceModel model = model_of(1, 3, 5);
    const TokenBatch batch{.batch = 1, .sequence = 3, .tokens = {0, 1, 2}, .targets = {4, 4, 1}};
    SoftmaxTable table;
    const LossMoments moments = loss_moments(detail::given_tokens(batch), model, TokenKernel(9, 0.0), false, table);
    const double same = (1.0 - 1.0 / 5.0) / 9.0 / 64.0, different = -1.0 / 5.0 / 9.0 / 64.0;
    for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t j = 0; j < 3; ++j)
            CHECK(moments.gradient[3 * i + j] ==
                  doctest::Approx(batch.targets[i] == batch.targets[j] ? same : different));
}

TEST_CASE("loss_moments: two classes, independent tokens") {
    // dLoss/dlogits of a token has square E |p - y|^2 = 1 - 2/V + m2, over N^2. That of the readout is the sum over
    // tokens of the outer products with the hidden states, D q each.
    for (const double q : {0.3, 1.0, 4.0}) {
        CAPTURE(q);
        const double m2 = two_class_concentration(q), tokens = 6.0;
        const LossMoments moments = of_random_tokens(model_of(2, 3, 2), {q, 0.0, 0.0}, false);
        CHECK(moments.loss ==
              doctest::Approx(over_difference(q, [](double d) { return std::log1p(std::exp(d)); })).epsilon(1e-5));
        CHECK(moments.readout == doctest::Approx(64.0 * q * m2 / tokens).epsilon(table_error));
        CHECK(moments.gradient[0] == doctest::Approx(m2 / (tokens * tokens) / 64.0).epsilon(table_error));
        CHECK(moments.gradient[1] == doctest::Approx(0.0).scale(1e-4));
    }
}

TEST_CASE("loss_moments: two classes, tokens that are all the same") {
    // Their predictions are one, and only their targets differ: pairs have 1/V - 2/V + m2.
    const double q = 1.5, m2 = two_class_concentration(q), pair = m2 - 0.5;
    const LossMoments moments = of_random_tokens(model_of(1, 2, 2), {q, q, q}, false);
    CHECK(moments.readout == doctest::Approx(64.0 * q * (2.0 * m2 + 2.0 * pair) / 4.0).epsilon(table_error));
    CHECK(moments.gradient[0] == doctest::Approx(m2 / 4.0 / 64.0).epsilon(table_error));
    CHECK(moments.gradient[1] == doctest::Approx(pair / 4.0 / 64.0).epsilon(table_error * m2 / pair));
}

TEST_CASE("loss_moments: the final norm makes the stream's size no matter, and divides the gradient by it") {
    const ReferenceModel model = model_of(2, 3, 11);
    const LossMoments one = of_random_tokens(model, {1.0, 0.5, 0.25}, true),
                      nine = of_random_tokens(model, {9.0, 4.5, 2.25}, true),
                      without = of_random_tokens(model, {1.0, 0.5, 0.25}, false);
    CHECK(nine.loss == doctest::Approx(one.loss));
    CHECK(nine.readout == doctest::Approx(one.readout));
    CHECK(nine.final_norm.gain == doctest::Approx(one.final_norm.gain));
    CHECK(nine.final_norm.bias == doctest::Approx(one.final_norm.bias));
    CHECK(one.readout == doctest::Approx(without.readout));
    for (std::size_t e = 0; e < 3; ++e) {
        CHECK(nine.gradient[e] == doctest::Approx(one.gradient[e] / 9.0));
        CHECK(one.gradient[e] == doctest::Approx(without.gradient[e]));
    }
    // epsilon stands inside the root: where it is as large as the second moment, half of that is left.
    const LossMoments halved = of_random_tokens(model_of(2, 3, 11, 1.0), {1.0, 0.0, 0.0}, true),
                      half = of_random_tokens(model, {0.5, 0.0, 0.0}, false);
    CHECK(halved.loss == doctest::Approx(half.loss));
    CHECK(halved.gradient[0] == doctest::Approx(half.gradient[0] / 2.0));
}

TEST_CASE("loss_moments: the mean gradient along the hidden state, which a norm's gain and bias see") {
    // Stein: E sum_v p_v u_v = (1 - m2)/D h, so token i sends a h_i/N, a = (1 - m2)/D. The gain gets a/N sum_i h_i o
    // h_i, and of Gaussian h with E h_i h_j = K_ij: D (a/N)^2 sum_ij (K_ii K_jj + 2 K_ij^2). The bias gets a/N sum_i
    // h_i: D (a/N)^2 sum_ij K_ij.
    const double width = 64.0, a = (1.0 - two_class_concentration(1.0)) / width;
    for (const double c : {0.0, 0.6}) {
        CAPTURE(c);
        const LossMoments moments = of_random_tokens(model_of(1, 2, 2), {1.0, c, 0.0}, false);
        CHECK(last_norm(moments, 2).gain ==
              doctest::Approx(width * a * a / 4.0 * (4.0 + 2.0 * (2.0 + 2.0 * c * c))).epsilon(table_error));
        CHECK(last_norm(moments, 2).bias ==
              doctest::Approx(width * a * a / 4.0 * (2.0 + 2.0 * c)).epsilon(table_error));
    }
    // A final norm has this beside the gradient's own part: D sum_ij G_ij K_ij and D sum_ij G_ij, G at its output.
    const double m2 = two_class_concentration(1.0), own = 2.0 * m2 / 4.0;  // D G_ii = m2/N^2 of two tokens
    const LossMoments moments = of_random_tokens(model_of(1, 2, 2), {3.0, 0.0, 0.0}, true);
    CHECK(moments.final_norm.gain == doctest::Approx(own + last_norm(moments, 2).gain).epsilon(table_error));
    CHECK(moments.final_norm.bias == doctest::Approx(own + last_norm(moments, 2).bias).epsilon(table_error));
    CHECK(last_norm(moments, 2).gain == doctest::Approx(2.0 * width * a * a).epsilon(table_error));
}

TEST_CASE("loss_moments: tokens of different size count each by its own, and the loss by their mean") {
    // By position: the first token has second moment 0 and predicts uniformly, the second is as above.
    ReferenceModel model = model_of(1, 2, 2);
    model.causal = true;
    const double q = 2.0, m2 = two_class_concentration(q);
    const LossMoments moments = of_random_tokens(model, {0.0, 0.0, 0.0, q}, false);
    CHECK(moments.gradient[0] == doctest::Approx(0.5 / 4.0 / 64.0));
    CHECK(moments.gradient[3] == doctest::Approx(m2 / 4.0 / 64.0).epsilon(table_error));
    CHECK(moments.readout == doctest::Approx(64.0 * q * m2 / 4.0).epsilon(table_error));
    CHECK(moments.loss == doctest::Approx(expected_log_sum_exp(2.0, 0.5 * q)));
    const double a = ((1.0 - 0.5) + (1.0 - m2)) / 2.0 / 64.0;
    CHECK(last_norm(moments, TokenLayout::by_position(1, 2)).bias ==
          doctest::Approx(64.0 * a * a * q / 4.0).epsilon(table_error));
}
