// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/moments.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

namespace {

// F with covariances twice the input's, whose backward triples the gradient's; no fluctuations.
struct Doubling final : SublayerMoments {
    TokenKernel forward(const TokenKernel& input, const Fluctuation&) override {
        seen = input;
        TokenKernel output = input;
        for (double& k : output) k *= 2.0;
        return output;
    }
    TokenKernel backward(const TokenKernel& gradient) override {
        seen_gradient = gradient;
        TokenKernel result = gradient;
        for (double& g : result) g *= 3.0;
        return result;
    }
    double transfer() const override { return 0.0; }
    double fresh(const Fluctuation&) const override { return 0.0; }
    double norm_variance() const override { return 0.0; }
    TokenKernel seen, seen_gradient;
};

// A width at which finite-width corrections vanish against the tolerances below (doctest's default, 1e-5 relative).
constexpr double width = 1e12;

template <class P>
struct Run {
    TokenLayout layout = TokenLayout::exchangeable(1, 3);
    Doubling sublayer;
    Plan plan = normplace::plan(P::formula, Depth{2, 8, SublayerKind::other});
    NormMoments norm{NormKind::layer_norm, width, 1e-12};
    BlockMoments block{plan, layout, width, norm, sublayer};
    TokenKernel output, input_gradient;

    Run(const TokenKernel& stream, const TokenKernel& gradient) {
        StreamFluctuations fluctuation;
        fluctuation[0] = {0.0, 1.0 / width, 0.0, 0.0};
        output = block.forward(stream, fluctuation)[0];
        input_gradient = block.backward(gradient)[0];
    }
};

struct SharedStream {  // the stream reaches the sum twice, once normalised
    static constexpr auto name = "shared";
    static constexpr auto formula = x + norm(x) + f(0.5 * x);
    static constexpr bool final_norm = true;
};

}  // namespace

TEST_CASE("Pre-LN: the sublayer sees normalised tokens, the stream adds up") {
    const Run<PreLN> run({4.0, 1.0, 0.0}, {1.0, 0.5, 0.0});
    CHECK(run.sublayer.seen[0] == doctest::Approx(1.0));
    CHECK(run.sublayer.seen[1] == doctest::Approx(0.25));
    CHECK(run.output[0] == doctest::Approx(4.0 + 2.0));
    CHECK(run.output[1] == doctest::Approx(1.0 + 0.5));
    CHECK(run.input_gradient[0] == doctest::Approx(1.0 + 3.0 / 4.0));
    CHECK(run.input_gradient[1] == doctest::Approx(0.5 + 1.5 / 4.0));
    // The gain sees 3 G with the normalised tokens, the bias 3 G alone: 3 diagonal and 6 other pairs.
    CHECK(run.block.norms[0].gain / width == doctest::Approx(3 * 3.0 * 1.0 + 6 * 1.5 * 0.25));
    CHECK(run.block.norms[0].bias / width == doctest::Approx(3 * 3.0 + 6 * 1.5));
}

TEST_CASE("Post-LN: the norm divides stream and branch, forward and backward") {
    const Run<PostLN> run({1.0, 0.5, 0.0}, {1.0, 0.2, 0.0});
    CHECK(run.output[0] == doctest::Approx(1.0));
    CHECK(run.output[1] == doctest::Approx(0.5));  // F = 2 K leaves correlations alone
    CHECK(run.sublayer.seen_gradient[0] == doctest::Approx(1.0 / 3.0));
    CHECK(run.input_gradient[0] == doctest::Approx((1.0 + 3.0) / 3.0));
}

TEST_CASE("Peri-LN and DeepNorm: slots in order, factors of the depth") {
    const Run<PeriLN> peri({4.0, 1.0, 0.0}, {1.0, 0.5, 0.0});
    CHECK(peri.output[0] == doctest::Approx(5.0));
    // norm<out> first: it sees G and unit tokens; norm<in> sees 3 G / 2, as the branch has second moment 2.
    CHECK(peri.block.norms[0].bias / width == doctest::Approx(3 * 1.0 + 6 * 0.5));
    CHECK(peri.block.norms[1].bias / width == doctest::Approx(1.5 * (3 * 1.0 + 6 * 0.5)));

    const Run<DeepNorm> deep({1.0, 0.0, 0.0}, {1.0, 0.0, 0.0});  // alpha^2 = sqrt(16) = 4
    CHECK(deep.output[0] == doctest::Approx(1.0));
    CHECK(deep.input_gradient[0] == doctest::Approx((4.0 + 3.0) / (4.0 + 2.0)));
}

TEST_CASE("a stream that reaches the sum twice adds amplitudes, not variances") {
    static_assert(Placement<SharedStream> && SharedStream::final_norm && SharedStream::name != nullptr);
    const Run<SharedStream> run({4.0, 0.0, 0.0}, {1.0, 0.0, 0.0});
    // (1 + 1/2)^2 K + 2 (1/2)^2 K
    CHECK(run.output[0] == doctest::Approx(2.25 * 4.0 + 0.5 * 4.0));
    CHECK(run.input_gradient[0] == doctest::Approx(2.25 + 3.0 * 0.25));
}

TEST_CASE("epsilon stands under the root") {
    const TokenLayout layout = TokenLayout::exchangeable(1, 3);
    Doubling sublayer;
    const Plan pre_ln = plan(PreLN::formula, Depth{});
    const NormMoments norm(NormKind::layer_norm, width, 1.0);
    BlockMoments block(pre_ln, layout, width, norm, sublayer);
    StreamFluctuations fluctuation;
    fluctuation[0] = {0.0, 1.0 / width, 0.0, 0.0};
    block.forward(TokenKernel{1.0, 0.0, 0.0}, fluctuation);
    CHECK(sublayer.seen[0] == doctest::Approx(0.5));
}
