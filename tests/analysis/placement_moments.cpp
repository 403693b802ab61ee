// SPDX-License-Identifier: BSD-3-Clause
//
// A placement through a stack: its plans, and from its streams to the output. The walk itself is moments.cpp's.
#include <doctest/doctest.h>

#include <normplace/analysis/placement_moments.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;
using detail::OutputMoments;
using detail::Plans;

namespace {

struct TwoStreams {
    static constexpr auto name = "two-streams";
    static constexpr auto r = stream(1, "r");
    static constexpr auto formula = streams(norm(x + f(x)), r + f(x));
    static constexpr auto output = x + norm(r);
};
constexpr double width = 1e12;

}  // namespace

TEST_CASE("Plans: made anew where the formula depends on the depth") {
    Plans deep(DeepNorm::formula), pre(PreLN::formula);
    CHECK(deep.at({1, 8}).steps[1].input[0].factor == doctest::Approx(2.0));
    CHECK(deep.at({1, 128}).steps[1].input[0].factor == doctest::Approx(4.0));
    const Plan* first = &pre.at({1, 8});
    CHECK(first->steps.size() == 2);
    CHECK(&pre.at({2, 8}) == first);
}

TEST_CASE("is_norm: what a norm closes, and nothing else") {
    const auto closed = [](const Formula& formula) {
        const Plan there = plan(formula, Depth{});
        return detail::is_norm(there, there.results[0]);
    };
    CHECK(closed(PostLN::formula));
    CHECK(closed(DeepNorm::formula));
    CHECK_FALSE(closed(PreLN::formula));
    CHECK_FALSE(closed(PeriLN::formula));  // its last norm is the branch's
    CHECK_FALSE(closed(0.5 * norm(x + f(x))));
    CHECK_FALSE(closed(x));
}

TEST_CASE("OutputMoments: the streams as they are, a norm before or behind the output, a sum with one") {
    const TokenLayout layout = TokenLayout::exchangeable(1, 3);
    const NormMoments norm(NormKind::layer_norm, width, 1e-12);
    StreamFluctuations fluctuations;
    const StreamKernels one(TokenKernel{4.0, 1.0, 0.0});
    OutputMoments post(any_placement<PostLN>, layout, width, norm, true);
    CHECK_FALSE(post.ends_in_norm());
    CHECK(post.forward(one, fluctuations)[0] == 4.0);
    CHECK(post.backward({1.0, 0.5, 0.0})[0][1] == 0.5);

    OutputMoments before(any_placement<PreLN>, layout, width, norm, true);
    CHECK(before.ends_in_norm());
    CHECK(before.norms().empty());
    CHECK(before.forward(one, fluctuations)[0] == 4.0);

    OutputMoments behind(any_placement<PreLN>, layout, width, norm, false);
    CHECK(behind.forward(one, fluctuations)[1] == doctest::Approx(0.25));
    CHECK(behind.backward({1.0, 0.5, 0.0})[0][0] == doctest::Approx(0.25));
    CHECK(behind.norms()[0].bias == doctest::Approx(width * (3.0 + 6.0 * 0.5)));

    StreamKernels two(2);
    two(0, 0) = {1.0, 0.5, 0.0};
    two(0, 1) = {1.5, 0.25, 0.0};
    two(1, 0) = {1.5, 0.25, 0.0};
    two(1, 1) = {4.0, 1.0, 0.0};
    StreamFluctuations both(2);
    OutputMoments sum(any_placement<TwoStreams>, layout, width, norm, true);
    CHECK_FALSE(sum.ends_in_norm());
    CHECK(sum.forward(two, both)[0] == doctest::Approx(1.0 + 2.0 * 1.5 / 2.0 + 1.0));
    const StreamKernels back = sum.backward({1.0, 0.5, 0.0});
    CHECK(back(0, 0)[0] == doctest::Approx(1.0));
    CHECK(back(0, 1)[0] == doctest::Approx(0.5));
    CHECK(back(1, 1)[1] == doctest::Approx(0.125));
    CHECK(sum.norms()[0].bias == doctest::Approx(width * (3.0 + 6.0 * 0.5)));
}
