// The mean token cross-entropy and its gradient.
#include <doctest/doctest.h>

#include <limits>

#include <normplace/nn/cross_entropy.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {
Tokens targets_of(std::size_t batch, std::size_t sequence, int vocabulary) {
    Tokens targets;
    targets.resize({batch, sequence});
    for (std::size_t i = 0; i < targets.size(); ++i) targets.data()[i] = static_cast<int>(i) % vocabulary;
    return targets;
}
}  // namespace

TEST_CASE("equal logits cost ln V") {
    Activations<double> logits, dlogits;
    logits.resize({2, 3, 10});
    logits.fill(-7.0);
    CHECK(cross_entropy(logits, targets_of(2, 3, 10), dlogits) == doctest::Approx(std::log(10.0)).epsilon(1e-14));
    for (std::size_t r = 0; r < 6; ++r)
        for (std::size_t v = 0; v < 10; ++v)
            CHECK(dlogits.data()[10 * r + v] == doctest::Approx((0.1 - (v == r ? 1.0 : 0.0)) / 6.0).epsilon(1e-14));
}

TEST_CASE("its gradient is its derivative") {
    Activations<double> logits = random_activations(2, 3, 5, 1), dlogits, scratch;
    const Tokens targets = targets_of(2, 3, 5);
    cross_entropy(logits, targets, dlogits);
    check_gradients({checked("logits", logits, dlogits)}, [&] { return cross_entropy(logits, targets, scratch); });
}

TEST_CASE("large logits neither overflow nor lose the loss") {
    Activations<float> logits, dlogits;
    logits.resize({1, 1, 2});
    logits(0, 0, 0) = 1e30f;
    logits(0, 0, 1) = -1e30f;
    Tokens targets = targets_of(1, 1, 2);
    CHECK(cross_entropy(logits, targets, dlogits) == 0.0);
    targets(0, 0) = 1;
    CHECK(cross_entropy(logits, targets, dlogits) == doctest::Approx(2e30).epsilon(1e-6));
    logits(0, 0, 0) = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(cross_entropy(logits, targets, dlogits)));
    logits(0, 0, 0) = 0.0f;
    logits(0, 0, 1) = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(cross_entropy(logits, targets, dlogits)));
}

TEST_CASE("wrong arguments are refused with their values") {
    Activations<double> dlogits, none;
    CHECK_THROWS_WITH(cross_entropy(random_activations(2, 3, 5, 1), targets_of(2, 2, 5), dlogits),
                      "cross_entropy: targets has shape (2, 2), expected (2, 3)");
    CHECK_THROWS_WITH(cross_entropy(random_activations(1, 3, 2, 1), targets_of(1, 3, 3), dlogits),
                      "cross_entropy: target 2 is not in a vocabulary of 2");
    CHECK_THROWS_WITH(cross_entropy(random_activations(0, 3, 5, 1), targets_of(0, 3, 5), dlogits),
                      "cross_entropy: logits of shape (0, 3, 5) have no tokens to average over");
}
