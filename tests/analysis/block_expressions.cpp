// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/block_expressions.hpp>

using namespace normplace;

namespace {

constexpr double d = 64.0, rho = 0.5;
const TokenLayout tokens = TokenLayout::exchangeable(1, 3);
const TokenKernel kernel{2.0, 2.0 * rho, 0.0}, output{3.0, 3.0 * 0.9, 0.0};

struct Following final : SublayerMoments {
    TokenKernel forward(const TokenKernel& input, const Fluctuation&) override { return input; }
    TokenKernel backward(const TokenKernel& gradient) override { return gradient; }
    double transfer() const override { return 0.25; }
    double fresh(const Fluctuation& input) const override { return 3.0 * input.relative; }
    double norm_variance() const override { return 0.0; }
};

// Gaussian tokens: the relative variance of a squared norm is 2/D.
StreamFluctuations gaussian(std::size_t streams = 1) {
    StreamFluctuations all(streams);
    for (std::size_t s = 0; s < streams; ++s) all[s] = {0.0, 1.0 / d, 2.0 / d, 0.0};
    return all;
}

struct Entered : BlockExpressions {
    explicit Entered(const StreamFluctuations& fluctuations = gaussian(), const StreamKernels& streams = kernel)
        : BlockExpressions(tokens, d) {
        enter(streams, fluctuations, 0);
    }
};

}  // namespace

TEST_CASE("the squared norm of a sum of Gaussian vectors varies by 2/D, as each does") {
    Entered block;
    CHECK(block.norm_variance(block.stream(0)) == doctest::Approx(2.0 / d));
    BlockExpression sum = block.stream(0);
    CHECK(block.enter_sublayer({}).norm == 0.0);
    sum.add(0.7, block.branch(output, 2.0 / d));
    CHECK(block.norm_variance(sum) == doctest::Approx(2.0 / d));
    CHECK(block.covariances(sum)[1] == doctest::Approx(1.0 + 0.49 * 2.7));
    CHECK(block.branch_square() == doctest::Approx(3.0));
    CHECK(block.has_stream(sum));
    sum.add(-1.0, block.stream(0));
    CHECK(!block.has_stream(sum));
}

TEST_CASE("F varies with its input: what that has, and its own for a given one") {
    Entered block;
    const Fluctuation seen = block.enter_sublayer(block.stream(0));
    CHECK(seen.norm == doctest::Approx(2.0 / d));
    CHECK(seen.relative == doctest::Approx(1.0 / d));
    CHECK(seen.spread == doctest::Approx(2.0 - 2.0 * rho));
    CHECK(block.norm_variance(block.branch(output, 0.1)) == doctest::Approx(2.0 / d + 0.1));
}

TEST_CASE("a normalised Gaussian vector: Fisher's mean of a sample correlation") {
    Entered block;
    BlockExpression e = block.stream(0);
    block.normalise(e);
    CHECK(block.norm_variance(e) == 0.0);
    e.scale(std::sqrt(0.5));
    CHECK(block.covariances(e)[0] == doctest::Approx(1.0));
    CHECK(block.covariances(e)[1] == doctest::Approx(rho * (1.0 - (1.0 - rho * rho) / (2.0 * d))));
    CHECK(block.between(e, e)[1] == doctest::Approx(rho));
    CHECK(block.fluctuation(e, Following{}).log_spread == doctest::Approx(2.0 / d * rho * rho));
    // A sum with it is a norm's value no longer, but it varies no more than its terms do.
    BlockExpression twice = e;
    twice.add(1.0, e);
    CHECK(block.norm_variance(twice) == 0.0);
    e.add(1.0, block.stream(0));
    CHECK(block.norm_variance(e) > 0.0);
    CHECK(block.covariances(e)[1] == block.between(e, e)[1]);
}

TEST_CASE("a stream that was normalised before loses nothing by a second norm") {
    StreamFluctuations fluctuations;
    fluctuations[0] = {0.0, 1.0 / d, 0.0, 0.0};
    Entered block(fluctuations);
    BlockExpression e = block.stream(0);
    block.normalise(e);
    CHECK(e.widening == 0.0);
    CHECK(block.covariances(e)[1] == 2.0 * rho);
}

TEST_CASE("the fluctuations of x + b F: F follows its input by the sublayer's transfer") {
    Entered block;
    const Following sublayer;
    const Fluctuation input = block.enter_sublayer(block.stream(0));
    BlockExpression sum = block.stream(0);
    sum.add(2.0, block.branch(output, 0.0));
    const double branch_spread = 4.0 * (3.0 - 2.7), followed = 4.0 * 0.25 * input.spread;
    CHECK(block.fluctuation(sum, sublayer).relative ==
          doctest::Approx(combined_relative(input, branch_spread, followed, 3.0 / d, d)));
}

TEST_CASE("streams' variances are averaged by what each contributes") {
    StreamKernels both(2);
    both(0, 0) = both(0, 1) = both(1, 0) = both(1, 1) = kernel;
    StreamFluctuations fluctuations = gaussian(2);
    fluctuations[1] = {0.0, 4.0 / d, 8.0 / d, 0.3};
    Entered block(fluctuations, both);
    BlockExpression e = block.stream(0);
    e.add(3.0, block.stream(1));  // amplitudes 1 and 3 of the same vector: a quarter and three quarters
    CHECK(block.covariances(e)[0] == doctest::Approx(16.0 * 2.0));
    CHECK(block.norm_variance(e) == doctest::Approx((0.25 * 2.0 + 0.75 * 8.0) / d));
    const Fluctuation averaged = block.fluctuation(e, Following{});
    CHECK(averaged.relative == doctest::Approx((0.25 + 0.75 * 4.0) / d));
    CHECK(averaged.log_spread == doctest::Approx(0.75 * 0.3));
}
