// SPDX-License-Identifier: BSD-3-Clause
//
// The feed-forward in moments. inner_norms.cpp has what a norm of the hidden units does to its values and gradients.
#include <doctest/doctest.h>

#include <normplace/analysis/feed_forward_moments.hpp>

using namespace normplace;

TEST_CASE("feed-forward: ReLU halves, and its gradient by hand") {
    const TokenLayout layout = TokenLayout::exchangeable(1, 2);
    ActivationKernel kernel(relu);
    FeedForwardMoments feed_forward(layout, {.width = 8.0, .feed_forward = 32.0, .linear1 = 0.5, .linear2 = 2.0},
                                    kernel);
    const TokenKernel output = feed_forward.forward({1.0, 0.0, 0.0}, {1.0, 1.0 / 8.0});
    CHECK(output[0] == doctest::Approx(2.0 * 0.25));
    CHECK(output[1] == doctest::Approx(2.0 * 0.5 / (2.0 * detail::pi)));
    const TokenKernel gradient = feed_forward.backward({1.0, 0.0, 0.0});
    CHECK(gradient[0] == doctest::Approx(0.5 * 2.0 * 0.5));  // s_1 s_2 kappa'
    CHECK(feed_forward.squares.w2 == doctest::Approx(8 * 32 * 2 * 0.25));
    CHECK(feed_forward.squares.w1 == doctest::Approx(8 * 32 * 2 * (2.0 * 8 / 32 * 0.5)));
    CHECK(feed_forward.squares.b2 == doctest::Approx(8 * 2));
    CHECK(feed_forward.squares.b1 == doctest::Approx(32 * 2 * (2.0 * 8 / 32 * 0.5)));
}

TEST_CASE("squared norms: ReLU's fourth moment is 6 times the square of its second, W_2 adds 2/D") {
    const TokenLayout layout = TokenLayout::exchangeable(1, 2);
    ActivationKernel kernel(relu);
    FeedForwardScales scales{.width = 8.0, .feed_forward = 32.0, .linear1 = 0.5, .linear2 = 2.0};
    FeedForwardMoments plain(layout, scales, kernel);
    plain.forward({3.0, 0.0, 0.0}, {});
    CHECK(plain.norm_variance() == doctest::Approx((6.0 - 1.0) / 32.0 + 2.0 / 8.0));
    CHECK(plain.fresh({}) == doctest::Approx(1.0 / 32.0 + 1.0 / 8.0));
    scales.hidden_norm = true;
    FeedForwardMoments normed(layout, scales, kernel);
    normed.forward({3.0, 0.0, 0.0}, {});
    CHECK(normed.norm_variance() == doctest::Approx(2.0 / 8.0));
}

TEST_CASE("transfer: how the output's covariance of two tokens follows the input's") {
    const TokenLayout layout = TokenLayout::exchangeable(1, 2);
    ActivationKernel kernel(gelu);
    for (const bool normed : {false, true}) {
        CAPTURE(normed);
        FeedForwardMoments feed_forward(
            layout, {.width = 8.0, .feed_forward = 32.0, .linear1 = 0.7, .linear2 = 2.0, .hidden_norm = normed},
            kernel);
        constexpr double step = 1e-3;
        const double above = feed_forward.forward({1.5, 0.4 + step, 0.0}, {})[1],
                     below = feed_forward.forward({1.5, 0.4 - step, 0.0}, {})[1];
        feed_forward.forward({1.5, 0.4, 0.0}, {});
        CHECK(feed_forward.transfer() == doctest::Approx((above - below) / (2.0 * step)));
    }
}
