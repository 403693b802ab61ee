// The token cross-entropy and its gradient: as a mean and as a sum, smoothed, with ignored targets.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

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
    Tokens targets = targets_of(2, 3, 5);
    cross_entropy(logits, targets, dlogits);
    check_gradients({checked("logits", logits, dlogits)}, [&] { return cross_entropy(logits, targets, scratch); });
    targets(1, 1) = ignored_target;
    cross_entropy(logits, targets, dlogits, 0.2);
    check_gradients({checked("logits", logits, dlogits)}, [&] { return cross_entropy(logits, targets, scratch, 0.2); });
}

TEST_CASE_TEMPLATE("sums, means and gradients are PyTorch's, smoothed and with ignored targets", T, double, float) {
    // A sum over a row of 11 in double; float's gradients are near 1, its inputs rounded.
    const double tolerance = sizeof(T) == sizeof(double) ? 1e-14 : 1e-6;
    std::ifstream file(std::filesystem::path(NORMPLACE_GOLDEN_DIR) / "loss.json");
    const auto golden = nlohmann::json::parse(file);
    const auto entries = golden.at("logits").get<std::vector<double>>();
    const auto shape = golden.at("shape").get<std::vector<std::size_t>>();
    Activations<T> logits, dlogits;
    logits.resize({shape[0], shape[1], shape[2]});
    std::transform(entries.begin(), entries.end(), logits.data(), [](double v) { return static_cast<T>(v); });
    const auto check = [&](const nlohmann::json& expected) {
        for (std::size_t i = 0; i < dlogits.size(); ++i)
            CHECK(std::abs(static_cast<double>(dlogits.data()[i]) - expected[i].get<double>()) < tolerance);
    };
    for (const auto& expected : golden.at("cross_entropy")) {
        Tokens targets;
        targets.resize({shape[0], shape[1]});
        for (std::size_t b = 0; b < shape[0]; ++b)
            for (std::size_t s = 0; s < shape[1]; ++s) targets(b, s) = expected.at("targets")[b][s].get<int>();
        const double smoothing = expected.at("label_smoothing").get<double>();
        CAPTURE(smoothing);
        const auto close_to = [&](const char* name) {
            return doctest::Approx(expected.at(name).get<double>()).epsilon(tolerance);
        };
        const LossSum loss = cross_entropy_sum(logits, targets, dlogits, {.label_smoothing = smoothing});
        CHECK(loss.sum == close_to("sum"));
        CHECK(loss.negative_log_likelihood == close_to("negative_log_likelihood"));
        CHECK(loss.tokens == expected.at("tokens").get<std::size_t>());
        CHECK(loss.correct == expected.at("correct").get<std::size_t>());
        check(expected.at("dlogits_of_sum"));
        CHECK(cross_entropy(logits, targets, dlogits, smoothing) == close_to("mean"));
        check(expected.at("dlogits_of_mean"));
        const double tokens = static_cast<double>(loss.tokens);
        const LossSum scaled = cross_entropy_sum(logits, targets, dlogits, {smoothing, tokens});
        CHECK(scaled.sum == loss.sum);
        check(expected.at("dlogits_of_mean"));
        dlogits = logits;
        CHECK(cross_entropy_sum(dlogits, targets, dlogits, {smoothing, tokens}).sum == close_to("sum"));
        check(expected.at("dlogits_of_mean"));
    }
}

TEST_CASE("a correct token's target is the first of the largest logits") {
    Activations<float> logits, dlogits;
    logits.resize({1, 4, 3});
    logits.fill(0.0f);
    Tokens targets({1, 4});
    for (const int target : {0, 1, 2}) {
        targets.fill(target);
        CHECK(cross_entropy_sum(logits, targets, dlogits).correct == (target == 0 ? 4 : 0));
    }
    logits(0, 3, 2) = 1.0f;
    CHECK(cross_entropy_sum(logits, targets, dlogits).correct == 1);
}

TEST_CASE("ignored tokens count nowhere, NaN or not") {
    Activations<double> logits = random_activations(2, 2, 5, 1), dlogits;
    for (std::size_t v = 0; v < 5; ++v) logits(1, 0, v) = std::numeric_limits<double>::quiet_NaN();
    Tokens targets = targets_of(2, 2, 5);
    CHECK(std::isnan(cross_entropy_sum(logits, targets, dlogits, {.label_smoothing = 0.1}).sum));
    targets(1, 0) = ignored_target;
    const LossSum some = cross_entropy_sum(logits, targets, dlogits, {.label_smoothing = 0.1});
    CHECK(std::isfinite(some.sum));
    CHECK(some.tokens == 3);
    for (std::size_t v = 0; v < 5; ++v) CHECK(dlogits(1, 0, v) == 0.0);
    targets.fill(ignored_target);
    dlogits.fill(1.0);
    const LossSum none = cross_entropy_sum(logits, targets, dlogits);
    CHECK(none.sum == 0.0);
    CHECK(none.negative_log_likelihood == 0.0);
    CHECK(none.tokens == 0);
    CHECK(none.correct == 0);
    for (const double d : dlogits) CHECK(d == 0.0);
    CHECK(cross_entropy_sum(random_activations(0, 3, 5, 1), targets_of(0, 3, 5), dlogits).tokens == 0);
}

TEST_CASE("large logits neither overflow nor lose the loss") {
    Activations<float> logits, dlogits;
    logits.resize({1, 1, 2});
    logits(0, 0, 0) = 1e30f;
    logits(0, 0, 1) = -1e30f;
    Tokens targets = targets_of(1, 1, 2);
    CHECK(cross_entropy(logits, targets, dlogits) == 0.0);
    CHECK(cross_entropy(logits, targets, dlogits, 0.5) == doctest::Approx(0.5 * 1e30).epsilon(1e-6));
    targets(0, 0) = 1;
    CHECK(cross_entropy(logits, targets, dlogits) == doctest::Approx(2e30).epsilon(1e-6));
    logits(0, 0, 0) = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(cross_entropy(logits, targets, dlogits)));
    logits(0, 0, 0) = 0.0f;
    logits(0, 0, 1) = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(cross_entropy(logits, targets, dlogits)));
}

TEST_CASE("wrong arguments are refused with their values") {
    Activations<double> dlogits;
    CHECK_THROWS_WITH(cross_entropy(random_activations(2, 3, 5, 1), targets_of(2, 2, 5), dlogits),
                      "cross_entropy: targets has shape (2, 2), expected (2, 3)");
    CHECK_THROWS_WITH(cross_entropy(random_activations(1, 3, 2, 1), targets_of(1, 3, 3), dlogits),
                      "cross_entropy: target 2 is not in a vocabulary of 2");
    CHECK_THROWS_WITH(cross_entropy(random_activations(0, 3, 5, 1), targets_of(0, 3, 5), dlogits),
                      "cross_entropy: logits of shape (0, 3, 5) have no tokens to average over");
    const Activations<double> logits = random_activations(1, 2, 3, 1);
    Tokens targets = targets_of(1, 2, 3);
    targets.fill(ignored_target);
    CHECK_THROWS_WITH(cross_entropy(logits, targets, dlogits),
                      "cross_entropy: logits of shape (1, 2, 3) have no tokens to average over");
    targets(0, 1) = -2;
    CHECK_THROWS_WITH(cross_entropy(logits, targets, dlogits), "cross_entropy: target -2 is not in a vocabulary of 3");
    CHECK_THROWS_WITH(cross_entropy_sum(logits, targets, dlogits),
                      "cross_entropy: target -2 is not in a vocabulary of 3");
    targets.fill(0);
    CHECK_THROWS_WITH(cross_entropy(logits, targets, dlogits, 1.5),
                      "cross_entropy: label_smoothing is 1.5, expected a number in [0, 1]");
    CHECK_THROWS_WITH(cross_entropy(logits, targets, dlogits, std::nan("")),
                      "cross_entropy: label_smoothing is nan, expected a number in [0, 1]");
    CHECK_THROWS_WITH(cross_entropy_sum(logits, targets, dlogits, {.denominator = 0.0}),
                      "cross_entropy: denominator is 0, expected a positive number");
}
