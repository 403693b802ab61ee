// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/passed_norm.hpp>

using namespace normplace;

namespace {

constexpr double width = 64.0;
const TokenLayout layout = TokenLayout::exchangeable(1, 3);
const TokenKernel kernel{4.0, 1.0, 0.0}, gradient{2.0, 0.5, 0.0};

// A norm of the only stream or of F, and the gradient at its value; its gain starts at 1/2.
struct Passed {
    NormMoments norm;
    BlockExpressions block{layout, width};
    TokenSources gradients{layout};
    PassedNorm passed;
    BlockExpression e;
    TokenCombination path;
    NormSquares squares;

    explicit Passed(NormKind kind, bool of_branch = false) : norm(kind, width, 1e-12) {
        const std::size_t norm_parts = norm.is_elementwise() ? 1 : 0;
        block.enter(kernel, StreamFluctuations{}, norm_parts);
        e = of_branch ? block.branch(kernel, 0.2) : block.stream(0);
        passed.forward(norm, 0, 0.5, block, e);
        gradients.together = gradient;
        gradients.apart.resize(1 + norm_parts);
        path = gradients.only(0);
        squares = passed.backward(norm, block, gradients, path);
    }
    TokenKernel input_gradient() const { return gradients.between(path, path); }
};

}  // namespace

TEST_CASE("a norm divides values and gradients by the root of the second moment; its gain multiplies both") {
    const Passed run(NormKind::layer_norm);
    const TokenKernel value = run.block.covariances(run.passed.value()), scaled = run.block.covariances(run.e);
    CHECK(value[0] == doctest::Approx(1.0));
    CHECK(scaled[0] == doctest::Approx(0.25));
    CHECK(run.block.between(run.e, run.e)[1] == doctest::Approx(0.25 * 0.25));
    CHECK(run.input_gradient()[1] == doctest::Approx(0.25 * 0.5 / 4.0));
    // 3 tokens, 6 pairs of different ones.
    CHECK(run.squares.gain == doctest::Approx(width * (3.0 * 2.0 * value[0] + 6.0 * 0.5 * value[1])));
    CHECK(run.squares.bias == doctest::Approx(width * (3.0 * 2.0 + 6.0 * 0.5)));
    CHECK(Passed(NormKind::unit_norm).squares.gain == 0.0);  // it has none
}

TEST_CASE("the gradient behind a norm of the branch alone gains the variance of the squared norm") {
    const Passed run(NormKind::rms_norm, true);
    CHECK(run.input_gradient()[0] == doctest::Approx(0.25 * 2.0 / 4.0 * 1.2));
    CHECK(run.block.norm_variance(run.e) == 0.0);
}

TEST_CASE("CentreNorm takes 1/D away and leaves sizes alone") {
    const Passed run(NormKind::centre_norm, true);
    const double factor = width / (width - 1.0);
    CHECK(run.e[1][0] == doctest::Approx(0.5 * factor));
    CHECK(run.input_gradient()[0] == doctest::Approx(2.0 * 0.25 * factor * factor));
    CHECK(run.block.norm_variance(run.e) == doctest::Approx(0.2));
}

TEST_CASE("DyT: the covariances of tanh and of its derivative, and what of tanh follows the argument") {
    const Passed run(NormKind::dyt);
    const KernelPair same = run.norm.elementwise(4.0, 4.0, 4.0), pair = run.norm.elementwise(4.0, 4.0, 1.0);
    const TokenKernel value = run.block.covariances(run.passed.value());
    CHECK(value[0] == doctest::Approx(same.value));
    CHECK(value[1] == doctest::Approx(pair.value));
    CHECK(run.input_gradient()[0] == doctest::Approx(0.25 * 2.0 * same.derivative));
    CHECK(run.input_gradient()[1] == doctest::Approx(0.25 * 0.5 * pair.derivative));
    // Stein's lemma: E tanh(alpha u) u = E u^2 E alpha tanh'(alpha u).
    const double slope = std::sqrt(run.norm.elementwise(4.0, 4.0, 0.0).derivative);
    CHECK(run.block.between(run.passed.value(), run.block.stream(0))[0] == doctest::Approx(4.0 * slope));
    CHECK(run.block.between(run.passed.value(), run.block.stream(0))[1] == doctest::Approx(1.0 * slope));
}
