// SPDX-License-Identifier: BSD-3-Clause
//
// A placement's formula after a step: without one it is moments.hpp's, with one it is what explicit matrices and the
// formula written out by hand give.
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/first_step.hpp>
#include <normplace/analysis/moments.hpp>
#include <normplace/analysis/step_moments.hpp>
#include <normplace/placement/catalogue.hpp>
#include <normplace/placement/visit.hpp>
#include <vector>

#include "draw_step.hpp"

using namespace normplace;
using namespace draw_step;

namespace {

struct SharedStream {  // the stream reaches the sum twice, once normalised
    static constexpr auto name = "shared";
    static constexpr auto formula = x + norm(x) + f(0.5 * x);
    static constexpr bool final_norm = true;
};
struct ScaledBranches {
    static constexpr auto name = "scaled";
    static constexpr auto formula = 0.25 * (2.0 * x + norm<out>(3.0 * f(norm<in>(x))));
    static constexpr bool final_norm = true;
};
struct Weighted {
    static constexpr auto name = "weighted";
    static constexpr auto formula = norm(1.5 * x + f(x));
    static constexpr bool final_norm = false;
};

static_assert(Placement<SharedStream> && Placement<ScaledBranches> && Placement<Weighted>);

// F with what it is told to have, whatever comes in.
struct Given final : SublayerStep {
    SteppedActivations step(const detail::StepContext&, SteppedActivations input) override {
        seen = std::move(input);
        return output;
    }
    SteppedActivations output, seen;
};
// W x, with a step of W.
struct LinearStep final : SublayerStep {
    SteppedActivations step(const detail::StepContext& context, SteppedActivations input) override {
        detail::step_matrix(context, matrix, input);
        detail::add_coherent(context, gradient, input);
        return input;
    }
    MatrixStep matrix;
    FoldedKernel gradient;
};

const Depth depth{3, 8, SublayerKind::other};
constexpr double tiny = 1e-12;

void check_without_step(const AnyPlacement& placement) {
    CAPTURE(placement.name);
    ActivationKernel kernel(gelu);
    for (const TokenLayout& layout :
         {TokenLayout::exchangeable(1, 5), TokenLayout::by_position(1, 5), TokenLayout::by_token(1, 5)}) {
        constexpr double wide = 1e13;  // where moments.hpp has no finite-width corrections
        const TokenKernel k = some_kernel(layout, 6);
        FeedForwardMoments feed_forward(layout, {wide, wide, 0.8, 1.5}, kernel);
        const Plan here = plan(placement.formula, depth);
        const NormMoments norm(NormKind::layer_norm, wide, 1e-5);
        BlockMoments moments(here, layout, wide, norm, feed_forward);
        StreamFluctuations fluctuation;
        fluctuation[0] = {0.0, 1.0 / wide, 0.0, 0.0};
        const TokenKernel expected = moments.forward(k, fluctuation)[0];

        const Crossing crossing(layout, true);
        const StepDecomposition some{3.0, 2.0};
        FeedForwardStep step(kernel);
        step.linear1 = {0.8, 64.0, some, some};
        step.linear2 = {1.5, 256.0, some, some};
        step.pre_activation = layout.diagonal_of(feed_forward.input());
        for (double& q : step.pre_activation) q *= 0.8;
        step.hidden_gradient = step.output_gradient = FoldedKernel(crossing.rows() * crossing.rows(), 1.0);
        PerToken branch = layout.diagonal_of(feed_forward.activated());
        for (double& q : branch) q *= 1.5;
        const BlockBefore before{layout.diagonal_of(k), branch, step.output_gradient};
        BlockStep block(plan(placement.formula, depth), 1e-5, before, step);
        for (NormStep& norm : block.norms) norm = {some, some};
        CrossedKernel crossed = crossing.zero();
        if (!layout.is_exchangeable()) crossed = k;  // new tokens that are the old ones
        const SteppedActivations output =
            block.step({crossing, 0.0, 0.1}, {k, crossed, crossing.zero(), TokenKernel(layout.entries())});
        for (std::size_t e = 0; e < expected.size(); ++e) {
            if (layout.is_exchangeable() && e == 2) continue;  // there is no other sequence
            CHECK(output.covariance[e] == doctest::Approx(expected[e]).epsilon(1e-9));
            CHECK(output.change[e] == 0.0);
        }
        for (std::size_t e = 0; e < crossed.size(); ++e) {
            CHECK(output.amplitude[e] == 0.0);
            if (!layout.is_exchangeable()) CHECK(output.crossed[e] == doctest::Approx(expected[e]).epsilon(1e-9));
        }
    }
}

// One class of old and new tokens: K' = 2 and 1.5 between tokens, C = 1, and F's 1.2 and 0.7, 0.4.
struct ByHand {
    Crossing crossing{TokenLayout::exchangeable(2, 3), false};
    Given sublayer;
    SteppedActivations stream{{2.0, 1.5, 0.0}, {1.0}, {0.3}, {0.2, 0.1, 0.0}};
    BlockBefore before{{1.75}, {0.5}, {0.9}};
    detail::StepContext context{crossing, 0.01, 0.0};
    ByHand() { sublayer.output = {{1.2, 0.7, 0.0}, {0.4}, {0.6}, {0.25, 0.15, 0.0}}; }
};

}  // namespace

TEST_CASE("BlockStep: without a step new tokens become what old ones became") {
    for (const AnyPlacement* placement : all_placements())
        if (has_first_step(*placement)) check_without_step(*placement);
    check_without_step(any_placement<SharedStream>);
    check_without_step(any_placement<ScaledBranches>);
    check_without_step(any_placement<Weighted>);
}

TEST_CASE("BlockStep: x + f(x) adds what both are pulled along") {
    ByHand hand;
    BlockStep block(plan(NoNorm::formula, depth), tiny, hand.before, hand.sublayer);
    const SteppedActivations out = block.step(hand.context, hand.stream);
    const double shared = 2.0 * 0.3 * 0.9 * 0.6;
    CHECK(hand.sublayer.seen.covariance[1] == 1.5);
    CHECK(hand.sublayer.seen.amplitude[0] == 0.3);
    CHECK(out.covariance[0] == doctest::Approx(2.0 + 1.2 + shared));
    CHECK(out.covariance[1] == doctest::Approx(1.5 + 0.7 + shared));
    CHECK(out.crossed[0] == doctest::Approx(1.0 + 0.4));
    CHECK(out.amplitude[0] == doctest::Approx(0.3 + 0.6));
    CHECK(out.change[0] == doctest::Approx(0.2 + 0.25 + shared));
    CHECK(out.change[1] == doctest::Approx(0.1 + 0.15 + shared));
}

TEST_CASE("BlockStep: norm(alpha x + f(x)) divides by the roots before and after the step") {
    ByHand hand;
    BlockStep block(plan(Weighted::formula, depth), tiny, hand.before, hand.sublayer);
    const SteppedActivations out = block.step(hand.context, hand.stream);
    const double alpha = 1.5, old = std::sqrt(alpha * alpha * 1.75 + 0.5);
    // In units of the gradient at the norm's output, x and F are pulled along alpha g / old and g / old.
    const double shared = 2.0 * alpha * alpha * 0.3 * 0.9 / (old * old) * 0.6;
    const double q = alpha * alpha * 2.0 + 1.2 + shared, young = std::sqrt(q);
    CHECK(out.covariance[0] == doctest::Approx(1.0));
    CHECK(out.covariance[1] == doctest::Approx((alpha * alpha * 1.5 + 0.7 + shared) / q));
    CHECK(out.crossed[0] == doctest::Approx((alpha * alpha * 1.0 + 0.4) / (old * young)));
    CHECK(out.amplitude[0] == doctest::Approx((alpha * alpha * 0.3 + 0.6) / (old * young)));
    CHECK(out.change[0] == doctest::Approx((alpha * alpha * 0.2 + 0.25 + shared) / q));
}

TEST_CASE("BlockStep: the steps of a norm's gain and bias") {
    {  // at the end of the formula they pull the output itself
        ByHand hand;
        BlockStep block(plan(Weighted::formula, depth), tiny, hand.before, hand.sublayer);
        const SteppedActivations without = block.step(hand.context, hand.stream);
        block.norms[0] = {{5.0, 0.0}, {7.0, 0.0}};
        const SteppedActivations with = block.step(hand.context, hand.stream);
        const double own = 0.01 * (5.0 * without.crossed[0] + 7.0), a = without.amplitude[0];
        const double more = 0.9 * ((a + own) * (a + own) - a * a);
        CHECK(with.amplitude[0] == doctest::Approx(a + own));
        CHECK(with.covariance[1] == doctest::Approx(without.covariance[1] + more));
        CHECK(with.change[1] == doctest::Approx(without.change[1] + more));
        CHECK(with.crossed[0] == without.crossed[0]);
    }
    {  // before f they pull what enters it, in units of the gradient there
        ByHand hand;
        BlockStep block(plan(PreLN::formula, depth), tiny, hand.before, hand.sublayer);
        block.norms[0] = {{5.0, 0.0}, {7.0, 0.0}};
        block.step(hand.context, hand.stream);
        const double roots = std::sqrt(1.75 * 2.0);
        CHECK(hand.sublayer.seen.crossed[0] == doctest::Approx(1.0 / roots));
        CHECK(hand.sublayer.seen.amplitude[0] == doctest::Approx(0.3 / roots + 0.01 * (5.0 / roots + 7.0)));
        CHECK(hand.sublayer.seen.covariance[1] == doctest::Approx(0.75));
    }
    {  // with weight decay the gain shrinks, by 0.01 * 10 of it
        ByHand hand;
        BlockStep block(plan(PreLN::formula, depth), tiny, hand.before, hand.sublayer);
        hand.context.weight_decay = 10.0;
        block.step(hand.context, hand.stream);
        CHECK(hand.sublayer.seen.covariance[0] == doctest::Approx(0.81));
        CHECK(hand.sublayer.seen.crossed[0] == doctest::Approx(0.9 / std::sqrt(1.75 * 2.0)));
    }
    {  // of which a factor scales value and gradient
        ByHand hand;
        BlockStep block(plan(LayerNormScaling::formula, depth), tiny, hand.before, hand.sublayer);
        block.norms[0] = {{0.0, 0.0}, {7.0, 0.0}};
        block.step(hand.context, hand.stream);
        CHECK(hand.sublayer.seen.amplitude[0] == doctest::Approx((0.3 / std::sqrt(1.75 * 2.0) + 0.07) / 3.0));
    }
}

TEST_CASE("BlockStep: norm(alpha x + W x) against explicit matrices") {
    constexpr std::size_t d = 400;
    constexpr double scale = 0.8, alpha = 1.5, finite_width = 0.05;
    struct Case {
        double eta, entering;
    };
    const std::vector<Case> cases{{1e-5, 0.0}, {1e-2, 0.0}, {1e-2, 0.2}};
    const StepRule rule = StepRule::sgd();
    const Covariances setting;
    const TokenLayout& layout = setting.crossing.before();
    std::vector<Measured> measured(cases.size());
    MatrixDecomposition decomposition(rule);
    const auto roots = [&](const Dense& z) {
        std::vector<double> result;
        for (const auto& token : z) result.push_back(std::sqrt(dot(token, token) / static_cast<double>(d)));
        return result;
    };
    const auto divided = [&](Dense z, const std::vector<double>& by) {
        for (std::size_t i = 0; i < z.size(); ++i)
            for (double& entry : z[i]) entry /= by[i];
        return z;
    };
    for (unsigned seed = 0; seed < 6; ++seed) {
        Drawing drawing(seed);
        const Dense all = drawing.vectors(setting.mixing, d, true),
                    g = drawing.vectors(setting.gradient_mixing, d, true);
        const Dense old = rows(all, 0, tokens), next = rows(all, tokens, sequence);
        Trained w{drawing.matrix(d, d, scale), {}, {}, {}};
        const auto sum = [&](const Trained& matrix, const Dense& x) { return plus(matrix(x), x, alpha); };
        const auto normalised = [&](const Dense& z) { return divided(z, roots(z)); };
        const Dense z = sum(w, old), sum_gradient = divided(g, roots(z));
        const Dense before = normalised(sum(w, next));
        const Dense stream_gradient = plus(product(sum_gradient, w.weight), sum_gradient, alpha);
        w.differentiate(sum_gradient, old);
        decomposition.add(w);
        for (std::size_t i = 0; i < cases.size(); ++i) {
            const Dense arriving =
                pulled_along(next, CrossedKernel(tokens * sequence, cases[i].entering), stream_gradient);
            measured[i].add(normalised(z), before, normalised(sum(w.after(rule, cases[i].eta), arriving)), g);
        }
    }

    PerToken stream = layout.diagonal_of(setting.old), branch = stream;
    for (double& q : branch) q *= scale;
    TokenKernel at_sum = setting.gradient, at_stream = at_sum;
    layout.for_each_entry([&](std::size_t e, std::size_t i, std::size_t j) {
        const double square = alpha * alpha + scale;
        at_sum[e] /= square * std::sqrt(stream[i] * stream[j]);
        at_stream[e] = square * at_sum[e];
    });
    const BlockBefore before{stream, branch, setting.crossing.fold(setting.gradient)};
    LinearStep sublayer;
    sublayer.matrix = decomposition.get(scale, d);
    sublayer.gradient = setting.crossing.fold(at_sum);
    BlockStep block(plan(Weighted::formula, depth), tiny, before, sublayer);
    for (std::size_t i = 0; i < cases.size(); ++i) {
        CAPTURE(cases[i].eta);
        CAPTURE(cases[i].entering);
        const detail::StepContext context{setting.crossing, cases[i].eta, 0.0};
        SteppedActivations input{setting.next, setting.crossed, CrossedKernel(tokens * sequence, cases[i].entering),
                                 TokenKernel(sequence * sequence)};
        detail::add_coherent(context, setting.crossing.fold(at_stream), input);
        const SteppedActivations output = block.step(context, input);
        check_same("covariance", measured[i].covariance, expand(setting.crossing.after(), output.covariance),
                   finite_width);
        check_same("crossed", measured[i].crossed, expand_crossed(setting.crossing, output.crossed), finite_width);
        // Changes are seen through the norm's projection and growth, but for the smallest step.
        if (cases[i].eta < 1e-3) check_same(measured[i], output, setting.crossing, setting.gradient, finite_width);
    }
}
