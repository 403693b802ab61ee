// SPDX-License-Identifier: BSD-3-Clause
//
// A formula at one place of a stack: the steps in order, factors folded into terms, choices made.
#include <doctest/doctest.h>

#include <normplace/placement/plan.hpp>

#include <string>

using namespace normplace;

namespace {

constexpr auto r = stream(1, "r");

/// "norm0 1 s0; f0 1 v0; = 1 s0 0.5 v1": every step with its input, then the results.
std::string text(const Plan& plan) {
    std::string all;
    const auto terms = [&](const Plan::Terms& input) {
        for (const Plan::Term& term : input) {
            char number[32];
            std::snprintf(number, sizeof number, " %g ", term.factor);
            all += number;
            all += term.source < plan.streams ? "s" + std::to_string(term.source)
                                              : "v" + std::to_string(term.source - plan.streams);
        }
    };
    for (const Plan::Step& step : plan.steps) {
        all += step.kind == Node::Kind::norm ? "norm" : step.kind == Node::Kind::gated ? "gate" : "f";
        all += std::to_string(step.index);
        terms(step.input);
        all += "; ";
    }
    for (const Plan::Terms& result : plan.results) {
        all += "=";
        terms(result);
    }
    return all;
}
std::string text(const Formula& formula, const Depth& depth = {1, 8, SublayerKind::attention}) {
    return text(plan(formula, depth));
}

}  // namespace

TEST_CASE("steps in the order of computation, sums and factors in their terms") {
    CHECK(text(x + 0.5 * f(norm(x))) == "norm0 1 s0; f0 1 v0; = 1 s0 0.5 v1");
    CHECK(text(norm(x + f(x))) == "f0 1 s0; norm0 1 s0 1 v0; = 1 v1");
    CHECK(text(2.0 * (x + 0.5 * (x + f(3.0 * x)))) == "f0 3 s0; = 3 s0 1 v0");
    CHECK(text(x - f(x)) == "f0 1 s0; = 1 s0 -1 v0");
}

TEST_CASE("norms and gates are numbered as they are read, outermost first") {
    const Plan peri = plan(x + norm<out>(f(norm<in>(x))), Depth{});
    CHECK(text(peri) == "norm1 1 s0; f0 1 v0; norm0 1 v1; = 1 s0 1 v2");
    REQUIRE(peri.norms.size() == 2);
    CHECK(peri.norms[0].slot == out);
    CHECK(peri.norms[1].slot == in);
    CHECK(peri.norms[1].start == 1.0);
    CHECK(plan(x + norm(f(x), 0.0), Depth{}).norms[0].start == 0.0);
    const Plan gated = plan(
        learned("a", 0.25) * x + gate("b", [](const Depth& d) { return 1.0 / static_cast<double>(d.layers); }) * f(x),
        {1, 4, SublayerKind::other});
    REQUIRE(gated.gates.size() == 2);
    CHECK(gated.gates[0].name == Label{"a"});
    CHECK(gated.gates[0].start == 0.25);
    CHECK_FALSE(gated.gates[0].per_channel);
    CHECK(gated.gates[1].start == 0.25);
    CHECK(gated.gates[1].per_channel);
}

TEST_CASE("a number that a layer shares is its first block's") {
    constexpr auto rezero = learned("own", 1.0) * x + shared("a", 0.5) * f(x);
    const Plan first = plan(rezero, {1, 4, SublayerKind::attention}),
               later = plan(rezero, {1, 4, SublayerKind::feed_forward});
    CHECK(first.own_gates == 2);
    CHECK(later.own_gates == 1);
    REQUIRE(later.gates.size() == 2);
    CHECK(later.gates[0].name == Label{"own"});
    CHECK(later.gates[1].name == Label{"a"});
    CHECK(later.gates[1].start == 0.5);
    CHECK(text(later) == "gate0 1 s0; f0 1 s0; gate1 1 v1; = 1 v0 1 v2");
}

TEST_CASE("what is written twice is computed once") {
    CHECK(text(f(norm(x)) + norm(x)) == "norm0 1 s0; f0 1 v0; = 1 v1 1 v0");
    CHECK(text(streams(norm(x + f(x)), r + f(x))) == "f0 1 s0; norm0 1 s0 1 v0; = 1 v1= 1 s1 1 v0");
}

TEST_CASE("a choice falls by the depth, and only what is chosen has norms") {
    constexpr auto mixed = when({"l <= L/2", [](const Depth& d) { return 2 * d.layer <= d.layers; }}, norm(x + f(x)),
                                x + norm<out>(f(norm(x))));
    CHECK(text(mixed, {1, 2}) == "f0 1 s0; norm0 1 s0 1 v0; = 1 v1");
    CHECK(text(mixed, {2, 2}) == "norm1 1 s0; f0 1 v0; norm0 1 v1; = 1 s0 1 v2");
    CHECK(plan(mixed, {1, 2}).norms.size() == 1);
    CHECK(plan(mixed, {2, 2}).norms.size() == 2);
    constexpr auto by_kind = when(in_attention, x + f(x), norm(x + f(x)));
    CHECK(plan(by_kind, {1, 1, SublayerKind::attention}).norms.empty());
    CHECK(plan(by_kind, {1, 1, SublayerKind::cross_attention}).norms.empty());
    CHECK(plan(by_kind, {1, 1, SublayerKind::feed_forward}).norms.size() == 1);
}

TEST_CASE("a scalar or a gate's start that is not finite is refused with its value") {
    constexpr auto law = [](const Depth& d) { return 1.0 / static_cast<double>(d.layer - 1); };
    CHECK_THROWS_WITH(plan(scalar("1/(l-1)", law) * x + f(x), {1, 3}), "the scalar '1/(l-1)' is inf at layer 1 of 3");
    CHECK_THROWS_WITH(plan(gate("1/(l-1)", law) * x + f(x), {1, 3}), "the scalar '1/(l-1)' is inf at layer 1 of 3");
}
