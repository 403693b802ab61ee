// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/paper.hpp>
#include <string>

using namespace normplace;

namespace {
std::string message(auto&& function) {
    try {
        function();
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "nothing was thrown";
}
std::vector<double> layer_norm(const std::vector<double>& x) {
    double mean = 0.0, variance = 0.0;
    for (const double entry : x) mean += entry / static_cast<double>(x.size());
    for (const double entry : x) variance += (entry - mean) * (entry - mean) / static_cast<double>(x.size());
    std::vector<double> y;
    for (const double entry : x) y.push_back((entry - mean) / std::sqrt(variance));
    return y;
}
}  // namespace

TEST_CASE("Lemmas 1 and 2") {
    CHECK(paper::lemma1(512) == 256.0);
    CHECK(paper::lemma1(512, 2.0) == 1024.0);
    CHECK(paper::lemma2_post_ln(512) == 768.0);
    CHECK(paper::lemma2_pre_ln(512, 0).lower == 512.0);
    CHECK(paper::lemma2_pre_ln(512, 0).upper == 512.0);
    CHECK(paper::lemma2_pre_ln(512, 6).lower == 512.0 * 4.0);
    CHECK(paper::lemma2_pre_ln(512, 6).upper == 512.0 * 10.0);
}

TEST_CASE("Lemma 3 is the Jacobian of layer norm: central differences") {
    const std::vector<double> x{0.3, -1.2, 2.5, 0.7, -0.1};
    const std::vector<double> jacobian = paper::lemma3_jacobian(x);
    constexpr double h = 1e-5;  // error h^2 and rounding / h, about 1e-10 each
    for (std::size_t j = 0; j < x.size(); ++j) {
        std::vector<double> above = x, below = x;
        above[j] += h;
        below[j] -= h;
        const std::vector<double> up = layer_norm(above), down = layer_norm(below);
        for (std::size_t i = 0; i < x.size(); ++i)
            CHECK(jacobian[i * x.size() + j] ==
                  doctest::Approx((up[i] - down[i]) / (2.0 * h)).scale(1.0).epsilon(1e-8));
    }
}

TEST_CASE("Lemma 3's spectral norm is the Jacobian's") {
    const std::vector<double> x{0.3, -1.2, 2.5, 0.7, -0.1};
    const std::vector<double> jacobian = paper::lemma3_jacobian(x);
    std::vector<double> v{1.0, 0.0, 0.0, 0.0, 0.5};
    double norm = 0.0;
    for (int step = 0; step < 50; ++step) {  // the Jacobian is symmetric, so power iteration finds the norm
        std::vector<double> w(v.size(), 0.0);
        for (std::size_t i = 0; i < v.size(); ++i)
            for (std::size_t j = 0; j < v.size(); ++j) w[i] += jacobian[i * v.size() + j] * v[j];
        norm = 0.0;
        for (const double entry : w) norm += entry * entry;
        norm = std::sqrt(norm);
        for (std::size_t i = 0; i < v.size(); ++i) v[i] = w[i] / norm;
    }
    CHECK(paper::lemma3_spectral_norm(x) == doctest::Approx(norm).epsilon(1e-10));
    CHECK(paper::lemma3_spectral_norm({1.0, 2.0}) == 0.0);
    CHECK(message([] { paper::lemma3_jacobian({3.0, 3.0}); }).find("all 2 entries of x are 3") != std::string::npos);
}

TEST_CASE("Definition 1 and Theorem 1") {
    CHECK(paper::definition1_delta(512, 0.5) == doctest::Approx(std::exp(-16.0)));
    CHECK(paper::theorem1_probability(0.1, 0.125) == doctest::Approx(0.99 - 0.125 - 0.1));
    CHECK(paper::theorem1_post_ln(512, 2.0) == doctest::Approx(1024.0 * std::sqrt(40.0 / 3.0 * std::log(51200.0))));
    CHECK(paper::theorem1_pre_ln(512, 6) == doctest::Approx(512.0 * std::sqrt(5.0 * std::log(51200.0))));
    // The bound's dependence on depth is the theorem's point: L^(-1/2) for large L.
    CHECK(paper::theorem1_pre_ln(512, 400) / paper::theorem1_pre_ln(512, 100) == doctest::Approx(0.5).epsilon(0.01));
    CHECK(paper::tight_post_ln(300, 4) == doctest::Approx(5.0));
    CHECK(paper::tight_pre_ln(300, 4, 1.5) == doctest::Approx(5.0));
    CHECK(paper::tight_post_ln(512, 16) < paper::theorem1_post_ln(512));
}

TEST_CASE("the extension's layer factors") {
    CHECK(paper::extension_post_ln(12, 12) == 1.0);
    CHECK(paper::extension_post_ln(10, 12) == doctest::Approx(2.0 / 3.0));
    CHECK(paper::extension_pre_ln(1, 12) == 1.0);
    CHECK(message([] { paper::extension_post_ln(13, 12); }) ==
          "paper::extension_post_ln: layer 13 is not one of the layers 1 to 12");
}

TEST_CASE("arguments are refused with their values") {
    CHECK(message([] { paper::lemma1(0); }) == "paper::lemma1: width is 0, expected at least 1");
    CHECK(message([] { paper::definition1_delta(8, 1.5); }).find("epsilon 1.5") != std::string::npos);
    CHECK(message([] { paper::theorem1_probability(0.1, 2.0); }).find("delta 2.0") != std::string::npos);
    CHECK(message([] { paper::theorem1_pre_ln(8, 0); }).find("layers is 0") != std::string::npos);
    CHECK(message([] { paper::tight_pre_ln(8, 1, 0.0); }).find("second moment 0.0") != std::string::npos);
    CHECK(message([] { paper::theorem1_post_ln(8, -1.0); }).find("output gradient -1.0") != std::string::npos);
}
