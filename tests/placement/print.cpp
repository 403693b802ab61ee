// SPDX-License-Identifier: BSD-3-Clause
//
// A formula prints as the paper writes it, and as one could type it again.
#include <doctest/doctest.h>

#include <normplace/placement/catalogue.hpp>
#include <normplace/placement/print.hpp>

using namespace normplace;

TEST_CASE("each placement of the catalogue") {
    CHECK(to_string(PostLN::formula) == "norm(x + f(x))");
    CHECK(to_string(PreLN::formula) == "x + f(norm(x))");
    CHECK(to_string(NoNorm::formula) == "x + f(x)");
    CHECK(to_string(ResPostNorm::formula) == "x + norm(f(x))");
    CHECK(to_string(PeriLN::formula) == "x + norm<out>(f(norm<in>(x)))");
    CHECK(to_string(DeepNorm::formula) == "norm(alpha * x + f(x))");
    CHECK(to_string(LayerNormScaling::formula) == "x + f(1/sqrt(l) * norm(x))");
}

TEST_CASE("constants print as they are written, and a scaled sum keeps its brackets") {
    CHECK(to_string(x + 0.5 * f(norm(x))) == "x + 0.5 * f(norm(x))");
    CHECK(to_string(-1.0 * x + f(x)) == "-1 * x + f(x)");
    CHECK(to_string(1e-6 * f(x)) == "1e-06 * f(x)");
    CHECK(to_string(2.0 * (x + f(x))) == "2 * (x + f(x))");
    CHECK(to_string(2.0 * (0.5 * x)) == "2 * 0.5 * x");
    CHECK(to_string((x + x) + f(x)) == "x + x + f(x)");
    CHECK(to_string(norm<"mine">(x)) == "norm<mine>(x)");
}

TEST_CASE("learned factors, choices and streams") {
    CHECK(to_string(x + gate("lambda", 0.1) * f(norm(x))) == "x + lambda * f(norm(x))");
    CHECK(to_string(learned("a", 0.0) * (x + f(x))) == "a * (x + f(x))");
    CHECK(to_string(x + f(x) * 0.5) == "x + 0.5 * f(x)");
    CHECK(to_string(x + f(x) / 4.0) == "x + 0.25 * f(x)");
    CHECK(to_string(x - f(x)) == "x - f(x)");
    CHECK(to_string(x - 2.0 * (x + f(x))) == "x - 2 * (x + f(x))");
    CHECK(to_string(f(x) - (x + norm(x))) == "f(x) - (x + norm(x))");
    CHECK(to_string(when(in_attention, x + f(x), norm(x + f(x)))) == "attention ? x + f(x) : norm(x + f(x))");
    CHECK(to_string(x + when(in_attention, f(x), norm(f(x)))) == "x + (attention ? f(x) : norm(f(x)))");
    constexpr auto r = stream(1, "r");
    CHECK(to_string(streams(norm(x + f(x)), r + f(x))) == "norm(x + f(x)); r + f(x)");
}

TEST_CASE("what is inside f follows in words") {
    CHECK(to_string(SublayerNorms{}) == "");
    CHECK(to_string(SublayerNorms{.query = true, .key = true}) == "norms inside f: query, key");
    CHECK(to_string(SublayerNorms{.value = true, .heads = true, .head_scale = true, .hidden = true}) ==
          "norms inside f: value, heads, hidden, a factor for each head");
    CHECK(to_string(SublayerNorms{.head_scale = true}) == "a factor for each head");
    CHECK(
        to_string(any_placement<NGPT>) ==
        "norm(x + alpha * (norm<branch>(f(x)) - x)), norms inside f: query, key, a factor for each entry of query and "
        "key");
    CHECK(to_string(any_placement<PreLN>) == "x + f(norm(x))");
    CHECK(to_string(any_placement<QKNorm>) == "x + f(norm(x)), norms inside f: query, key");
    CHECK(to_string(any_placement<SubLN>) == "x + f(norm(x)), norms inside f: heads, hidden");
    CHECK(to_string(any_placement<HybridNorm>) ==
          "attention ? x + f(x) : f(norm(x)) + norm(x), norms inside f: query, key, value");
}

namespace {
/// The flags that a kind of sublayer ignores are not there; those of some layers alone are.
struct LateNorms {
    static constexpr auto name = "late-norms";
    static constexpr auto formula = x + f(x);
    static constexpr bool final_norm = true;
    static SublayerNorms inside(const Depth& depth) {
        const bool attends = depth.sublayer == SublayerKind::attention;
        return {.query = !attends, .key = attends && depth.layer == depth.layers, .hidden = attends};
    }
};
}  // namespace

TEST_CASE("inside f counts what is anywhere in a stack and in use") {
    CHECK(to_string(any_placement<LateNorms>) == "x + f(x), norms inside f: key");
}

TEST_CASE("a slot's norm as a parameter's name") {
    CHECK(norm_name(Label{}) == "norm");
    CHECK(norm_name(in) == "norm_in");
    CHECK(norm_name(out) == "norm_out");
}
