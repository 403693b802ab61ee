// SPDX-License-Identifier: BSD-3-Clause
//
// The concept Placement: each of its requirements once met by all, once missed by a model that has everything else.
// What the compiler then says is tested in tests/build/rejects/.
#include <doctest/doctest.h>

#include <normplace/placement/visit.hpp>

using namespace normplace;
namespace requirement = normplace::placement_requirement;

namespace {

struct Complete {
    static constexpr auto name = "complete";
    static constexpr auto formula = x + 0.5 * f(norm(x));
    static constexpr bool final_norm = true;
    static double gain(Role role, const Depth& depth) {
        return role == Role::query ? 2.0 : static_cast<double>(depth.layer);
    }
};

struct NoName {
    static constexpr auto formula = x + f(norm(x));
    static constexpr bool final_norm = true;
};
struct NumberForName {
    static constexpr auto name = 7;
    static constexpr auto formula = x + f(norm(x));
    static constexpr bool final_norm = true;
};
struct NoFormula {
    static constexpr auto name = "no-formula";
    static constexpr bool final_norm = true;
};
struct TextForFormula {
    static constexpr auto name = "text";
    static constexpr auto formula = "x + f(norm(x))";
    static constexpr bool final_norm = true;
};
struct NoSublayer {
    static constexpr auto name = "no-sublayer";
    static constexpr auto formula = x + norm(x);
    static constexpr bool final_norm = true;
};
struct TwoSublayers {
    static constexpr auto name = "two-sublayers";
    static constexpr auto formula = x + f(x) + f(norm(x));
    static constexpr bool final_norm = true;
};
struct OneSlotTwice {
    static constexpr auto name = "one-slot-twice";
    static constexpr auto formula = x + norm(f(norm(x)));
    static constexpr bool final_norm = true;
};
struct NoFinalNorm {
    static constexpr auto name = "no-final-norm";
    static constexpr auto formula = x + f(norm(x));
};
struct NumberForFinalNorm {
    static constexpr auto name = "number-for-final-norm";
    static constexpr auto formula = x + f(norm(x));
    static constexpr int final_norm = 1;
};
struct UnknownStream {
    static constexpr auto name = "unknown-stream";
    static constexpr auto formula = stream(1, "r") + f(x);
    static constexpr bool final_norm = false;
};
struct OutputWithSublayer {
    static constexpr auto name = "output-with-sublayer";
    static constexpr auto formula = x + f(x);
    static constexpr auto output = f(x);
};
struct OutputOfUnknownStream {
    static constexpr auto name = "output-of-unknown-stream";
    static constexpr auto formula = x + f(x);
    static constexpr auto output = norm(stream(1, "r"));
};
struct TwoEnds {
    static constexpr auto name = "two-ends";
    static constexpr auto formula = x + f(x);
    static constexpr bool final_norm = true;
    static constexpr auto output = x;
};
struct StreamsWithoutOutput {
    static constexpr auto name = "streams-without-output";
    static constexpr auto formula = streams(stream(1, "r"), x + f(norm(stream(1, "r"))));
    static constexpr bool final_norm = true;
};
struct InsideWithoutDepth {
    static constexpr auto name = "inside-without-depth";
    static constexpr auto formula = x + f(x);
    static constexpr bool final_norm = false;
    static SublayerNorms inside() { return {}; }
};
struct TwoStreams {
    static constexpr auto name = "two-streams";
    static constexpr auto r = stream(1, "r");
    static constexpr auto formula = streams(norm(x + f(x)), r + f(x));
    static constexpr auto output = x + norm(r);
    static SublayerNorms inside(const Depth& depth) { return {.query = depth.layer == 1}; }
};
struct OfUnitNorms {
    static constexpr auto name = "of-unit-norms";
    static constexpr auto formula = norm(x + f(x));
    static constexpr bool final_norm = false;
    static constexpr auto norm_kind = NormKind::unit_norm;
    static constexpr bool unit_matrices = true;
};
struct TextForNormKind : Complete {
    static constexpr auto norm_kind = "unit-norm";
};
struct NumberForUnitMatrices : Complete {
    static constexpr auto unit_matrices = 1;
};
struct GainWithoutDepth {
    static constexpr auto name = "gain-without-depth";
    static constexpr auto formula = x + f(norm(x));
    static constexpr bool final_norm = true;
    static double gain(Role) { return 1.0; }
};
struct ConstantForGain {
    static constexpr auto name = "constant-for-gain";
    static constexpr auto formula = x + f(norm(x));
    static constexpr bool final_norm = true;
    static constexpr double gain = 0.5;
};
struct MemberForGain {
    static constexpr auto name = "member-for-gain";
    static constexpr auto formula = x + f(norm(x));
    static constexpr bool final_norm = true;
    double gain(Role, const Depth&) const { return 1.0; }
};

}  // namespace

TEST_CASE("what has everything is a placement, the whole catalogue included") {
    static_assert(Placement<Complete>);
    static_assert(explain_placement<Complete>());
    for_each_placement([](auto placement) {
        static_assert(Placement<decltype(placement)>);
        static_assert(explain_placement<decltype(placement)>());
    });
}

TEST_CASE("one thing missing, and it is none; only that requirement is missed") {
    static_assert(!Placement<NoName> && !requirement::has_name<NoName>);
    static_assert(!Placement<NumberForName> && !requirement::has_name<NumberForName>);
    static_assert(requirement::has_formula<NoName> && requirement::has_final_norm<NoName>);

    static_assert(!Placement<NoFormula> && !requirement::has_formula<NoFormula>);
    static_assert(!Placement<TextForFormula> && !requirement::has_formula<TextForFormula>);
    static_assert(requirement::has_name<NoFormula> && requirement::has_final_norm<NoFormula>);

    static_assert(!Placement<NoSublayer> && !requirement::has_one_sublayer<NoSublayer>);
    static_assert(!Placement<TwoSublayers> && !requirement::has_one_sublayer<TwoSublayers>);
    static_assert(requirement::has_formula<TwoSublayers> && requirement::has_distinct_slots<TwoSublayers>);

    static_assert(!Placement<OneSlotTwice> && !requirement::has_distinct_slots<OneSlotTwice>);
    static_assert(requirement::has_formula<OneSlotTwice> && requirement::has_one_sublayer<OneSlotTwice>);

    static_assert(!Placement<NoFinalNorm> && !requirement::has_final_norm<NoFinalNorm>);
    static_assert(!Placement<NumberForFinalNorm> && !requirement::has_final_norm<NumberForFinalNorm>);
    static_assert(requirement::has_name<NoFinalNorm> && requirement::has_formula<NoFinalNorm>);
}

TEST_CASE("streams and the stack's output fit together") {
    static_assert(Placement<TwoStreams> && explain_placement<TwoStreams>());
    static_assert(stream_count<TwoStreams> == 2 && stream_count<Complete> == 1);
    static_assert(!Placement<UnknownStream> && !requirement::has_its_streams<UnknownStream>);
    static_assert(!Placement<OutputWithSublayer> && !requirement::has_output<OutputWithSublayer>);
    static_assert(!Placement<OutputOfUnknownStream> && !requirement::has_output<OutputOfUnknownStream>);
    static_assert(!Placement<TwoEnds> && !requirement::has_one_end<TwoEnds>);
    static_assert(!Placement<StreamsWithoutOutput> && !requirement::has_one_end<StreamsWithoutOutput>);
    static_assert(!Placement<InsideWithoutDepth> && !requirement::has_usable_inside<InsideWithoutDepth>);
}

TEST_CASE("a placement as a value has what its type has") {
    const AnyPlacement& two = any_placement<TwoStreams>;
    CHECK(two.name == "two-streams");
    CHECK(two.streams() == 2);
    CHECK(two.final_norm());
    CHECK(two.inside(Depth{.layer = 1, .layers = 2}).query);
    CHECK_FALSE(two.inside(Depth{.layer = 2, .layers = 2}).query);
    const AnyPlacement& complete = any_placement<Complete>;
    CHECK(complete.output == norm(x));
    CHECK(complete.gain(Role::query, Depth{}) == 2.0);
    CHECK(complete.inside(Depth{}) == SublayerNorms{});
    CHECK(any_placement<PostLN>.output == x);
    CHECK_FALSE(any_placement<PostLN>.final_norm());
}

TEST_CASE("a gain that cannot be called is refused, not passed over") {
    static_assert(!Placement<GainWithoutDepth> && !requirement::has_usable_gain<GainWithoutDepth>);
    static_assert(!Placement<ConstantForGain> && !requirement::has_usable_gain<ConstantForGain>);
    static_assert(!Placement<MemberForGain> && !requirement::has_usable_gain<MemberForGain>);
}

TEST_CASE("a placement's own kind of norm, and unit matrices") {
    static_assert(Placement<OfUnitNorms> && explain_placement<OfUnitNorms>());
    static_assert(!Placement<TextForNormKind> && !requirement::has_usable_norm_kind<TextForNormKind>);
    static_assert(!Placement<NumberForUnitMatrices> && !requirement::has_usable_unit_matrices<NumberForUnitMatrices>);
    CHECK(any_placement<OfUnitNorms>.norm_or(NormKind::dyt) == NormKind::unit_norm);
    CHECK(any_placement<Complete>.norm_or(NormKind::dyt) == NormKind::dyt);
    CHECK(any_placement<OfUnitNorms>.unit_matrices);
    CHECK_FALSE(any_placement<Complete>.unit_matrices);
}

TEST_CASE("the kinds of norm that make sense with a placement") {
    static_assert(explain_norm_kind<NGPT, NormKind::unit_norm>());
    static_assert(explain_norm_kind<PostLN, NormKind::dyt>());
    static_assert(explain_norm_kind<LipsFormer, NormKind::centre_norm>());
    static_assert(explain_norm_kind<SwinV2, NormKind::scale_norm>());
    static_assert(explain_norm_kind<DeepNorm, NormKind::rms_norm>());
    for (const AnyPlacement* placement : all_placements())
        CHECK(syntax::weighs_stream_in_norm(placement->formula) ==
              (placement == &any_placement<DeepNorm> || placement == &any_placement<Admin> ||
               placement == &any_placement<Keel>));
}

TEST_CASE("the gain is the placement's, or 1") {
    CHECK(initial_gain<Complete>(Role::query, Depth{.layer = 3, .layers = 4}) == 2.0);
    CHECK(initial_gain<Complete>(Role::out, Depth{.layer = 3, .layers = 4}) == 3.0);
    CHECK(initial_gain<PreLN>(Role::out, Depth{.layer = 3, .layers = 4}) == 1.0);
}
