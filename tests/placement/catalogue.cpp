// SPDX-License-Identifier: BSD-3-Clause
//
// What distinguishes the placements beside their formula: the final norm, the gains, the laws of the depth, against the
// papers' constants, worked out by hand.
#include <doctest/doctest.h>

#include <normplace/placement/catalogue.hpp>
#include <normplace/placement/plan.hpp>

#include <cmath>
#include <type_traits>

using namespace normplace;

namespace {

constexpr Role all_roles[] = {Role::query,   Role::key,       Role::value,   Role::out,  Role::linear1,
                              Role::linear2, Role::embedding, Role::readout, Role::other};
constexpr SublayerKind all_kinds[] = {SublayerKind::attention, SublayerKind::cross_attention,
                                      SublayerKind::feed_forward, SublayerKind::other};

template <class P>
void check_gain_one() {
    for (const Role role : all_roles)
        for (const std::size_t layers : {1u, 2u, 100u})
            for (const std::size_t layer : {std::size_t{1}, layers}) {
                CAPTURE(P::name);
                CHECK(initial_gain<P>(role, Depth{.layer = layer, .layers = layers}) == 1.0);
            }
}

doctest::Approx close(double value) { return doctest::Approx(value).epsilon(1e-14); }

}  // namespace

TEST_CASE("a final norm exactly where the stream ends un-normalised") {
    static_assert(!PostLN::final_norm);
    static_assert(PreLN::final_norm);
    static_assert(!NoNorm::final_norm);  // the control has no norm at all
    static_assert(ResPostNorm::final_norm);
    static_assert(PeriLN::final_norm);
    static_assert(!DeepNorm::final_norm);
    static_assert(LayerNormScaling::final_norm);
}

TEST_CASE("each block owns as many norms as its formula shows") {
    static_assert(syntax::count_norms(PostLN::formula) == 1);
    static_assert(syntax::count_norms(PreLN::formula) == 1);
    static_assert(syntax::count_norms(NoNorm::formula) == 0);
    static_assert(syntax::count_norms(ResPostNorm::formula) == 1);
    static_assert(syntax::count_norms(PeriLN::formula) == 2);
    static_assert(syntax::count_norms(DeepNorm::formula) == 1);
    static_assert(syntax::count_norms(LayerNormScaling::formula) == 1);
    static_assert(std::is_same_v<SandwichLN, PeriLN>);
}

TEST_CASE("placements that leave the initialization alone") {
    check_gain_one<PostLN>();
    check_gain_one<PreLN>();
    check_gain_one<NoNorm>();
    check_gain_one<ResPostNorm>();
    check_gain_one<PeriLN>();
    check_gain_one<LayerNormScaling>();
}

TEST_CASE("DeepNorm: alpha = (2L)^(1/4) on the stream, in every layer and sublayer") {
    const auto on_stream = [](const Depth& depth) {  // norm(alpha * x + f(x))
        const Plan there = plan(DeepNorm::formula, depth);
        REQUIRE(there.steps.size() == 2);
        CHECK(there.steps[0].input[0].factor == 1.0);
        CHECK(there.steps[1].input[1].factor == 1.0);  // not on f
        return there.steps[1].input[0].factor;
    };
    for (const SublayerKind kind : all_kinds) {
        CHECK(on_stream({.layer = 1, .layers = 8, .sublayer = kind}) == close(2.0));  // 16^(1/4)
        CHECK(on_stream({.layer = 8, .layers = 8, .sublayer = kind}) == close(2.0));
        CHECK(on_stream({.layer = 5, .layers = 12, .sublayer = kind}) == close(2.2133638394006434));  // 24^(1/4)
        CHECK(on_stream({.layer = 1, .layers = 1, .sublayer = kind}) == close(1.189207115002721));    // 2^(1/4)
    }
}

TEST_CASE("DeepNorm: gain (8L)^(-1/4), not its inverse, on the value path and the feed-forward alone") {
    struct Case {
        std::size_t layers;
        double gain;
    };
    for (const Case c : {Case{2, 0.5}, Case{32, 0.25}, Case{12, 0.31947155212313627}, Case{1, 0.5946035575013605}})
        for (const std::size_t layer : {std::size_t{1}, c.layers})
            for (const SublayerKind kind : all_kinds) {
                const Depth depth{.layer = layer, .layers = c.layers, .sublayer = kind};
                for (const Role role : {Role::value, Role::out, Role::linear1, Role::linear2})
                    CHECK(initial_gain<DeepNorm>(role, depth) == close(c.gain));
                for (const Role role : {Role::query, Role::key, Role::embedding, Role::readout, Role::other})
                    CHECK(initial_gain<DeepNorm>(role, depth) == 1.0);
            }
}

TEST_CASE("LayerNormScaling: 1/sqrt(l), l the layer for both of its sublayers") {
    const auto on_norm = [](const Depth& depth) {  // x + f(scale * norm(x))
        return plan(LayerNormScaling::formula, depth).steps[1].input[0].factor;
    };
    for (const SublayerKind kind : all_kinds)
        for (const std::size_t layers : {std::size_t{9}, std::size_t{100}}) {
            CHECK(on_norm({.layer = 1, .layers = layers, .sublayer = kind}) == 1.0);
            CHECK(on_norm({.layer = 4, .layers = layers, .sublayer = kind}) == close(0.5));
            CHECK(on_norm({.layer = 9, .layers = layers, .sublayer = kind}) == close(1.0 / 3.0));
        }
}

TEST_CASE("DeepNorm in an encoder-decoder: each stack by both depths") {
    const Depth encoder{.layers = 6, .stack = StackKind::encoder, .other_layers = 3},
        decoder{.layers = 3, .stack = StackKind::decoder, .other_layers = 6};
    const auto alpha = [](const Depth& depth) { return plan(DeepNorm::formula, depth).steps[1].input[0].factor; };
    // (6^4 * 3)^(1/16) = 1.6764786..., 9^(1/4) = sqrt(3), 36^(-1/4) = 1/sqrt(6)
    const double power = std::exp((4.0 * std::log(6.0) + std::log(3.0)) / 16.0);
    CHECK(alpha(encoder) == close(0.81 * power));
    CHECK(alpha(decoder) == close(1.7320508075688772));
    CHECK(initial_gain<DeepNorm>(Role::linear1, encoder) == close(0.87 / power));
    CHECK(initial_gain<DeepNorm>(Role::out, decoder) == close(0.408248290463863));
    CHECK(initial_gain<DeepNorm>(Role::query, encoder) == 1.0);
}

TEST_CASE("Sub-LN: sqrt(ln 2L), in an encoder-decoder by both depths, and cross-attention stays as it is") {
    const Depth alone{.layers = 8}, encoder{.layers = 8, .stack = StackKind::encoder, .other_layers = 4},
        decoder{.layers = 4, .sublayer = SublayerKind::attention, .stack = StackKind::decoder, .other_layers = 8};
    CHECK(initial_gain<SubLN>(Role::value, alone) == close(std::sqrt(std::log(16.0))));
    CHECK(initial_gain<SubLN>(Role::key, alone) == 1.0);
    CHECK(initial_gain<SubLN>(Role::linear2, encoder) == close(std::sqrt(std::log(12.0) * std::log(16.0) / 3.0)));
    CHECK(initial_gain<SubLN>(Role::out, decoder) == close(std::sqrt(std::log(12.0))));
    Depth cross = decoder;
    cross.sublayer = SublayerKind::cross_attention;
    CHECK(initial_gain<SubLN>(Role::out, cross) == 1.0);
    CHECK(SubLN::inside(decoder).heads);
    CHECK_FALSE(SubLN::inside(cross).heads);
}

TEST_CASE("T-Fixup: (9L)^(-1/4) on embeddings, 0.67 L^(-1/4) in an encoder, (9M)^(-1/4) in a decoder") {
    CHECK(initial_gain<TFixup>(Role::embedding, {.layers = 9}) == close(1.0 / 3.0));
    CHECK(initial_gain<TFixup>(Role::value, {.layers = 16}) == close(0.335));
    CHECK(initial_gain<TFixup>(Role::linear1, {.layers = 9, .stack = StackKind::decoder}) == close(1.0 / 3.0));
    CHECK(initial_gain<TFixup>(Role::query, {.layers = 9, .stack = StackKind::decoder}) == 1.0);
}

TEST_CASE("the laws of scalars and of learned factors") {
    const auto gate = [](const Formula& formula, const Depth& depth) { return plan(formula, depth).gates[0].start; };
    const auto skip = [](const Formula& formula, const Depth& depth) {  // the factor on x where a sum ends
        const Plan there = plan(formula, depth);
        return there.steps.back().input[0].factor;
    };
    CHECK(skip(Keel::formula, {2, 12}) == 24.0);
    CHECK(plan(Keel::formula, {1, 12}).results[0].size() == 2);  // the first layer is Pre-LN
    CHECK(plan(DepthScaled::formula, {3, 8}).results[0][1].factor == close(0.25));
    CHECK(gate(LayerScale::formula, {1, 18}) == 0.1);
    CHECK(gate(LayerScale::formula, {1, 24}) == 1e-5);
    CHECK(gate(LayerScale::formula, {1, 36}) == 1e-6);
    CHECK(gate(SkipInit::formula, {1, 36}) == 0.0);
    CHECK(gate(LipsFormer::formula, {1, 8}) == 0.125);
    CHECK(initial_gain<ScaledPreLN>(Role::out, {.layers = 8}) == close(0.25));
    CHECK(initial_gain<ScaledPreLN>(Role::linear2, {.layers = 8}) == close(0.25));
    CHECK(initial_gain<ScaledPreLN>(Role::linear1, {.layers = 8}) == 1.0);
    CHECK(plan(SwinV2::formula, Depth{}).norms[0].start == 0.0);
}

TEST_CASE("Admin: omega by the branches before, each counted as 1 where nobody has said") {
    const auto omega = [](const Depth& depth) { return plan(Admin::formula, depth).gates[0].start; };
    Depth depth{.layer = 5, .layers = 6, .sublayer = SublayerKind::feed_forward};
    CHECK(omega(depth) == close(std::sqrt(10.0)));
    depth.sublayer = SublayerKind::attention;
    CHECK(omega(depth) == close(3.0));
    depth.earlier_branches = 3.0;
    CHECK(omega(depth) == close(2.0));
}

TEST_CASE("choices by layer and by kind") {
    const auto ends_in_norm = [](const Formula& formula, const Depth& depth) {
        return plan(formula, depth).results[0].size() == 1;
    };
    for (std::size_t l = 1; l <= 10; ++l) CHECK(ends_in_norm(MixLN::formula, {l, 10}) == (l <= 2));  // floor(10/4)
    CHECK_FALSE(ends_in_norm(MixLN::formula, {1, 3}));
    const Depth attention{2, 4, SublayerKind::attention}, feed_forward{2, 4, SublayerKind::feed_forward},
        first{1, 4, SublayerKind::feed_forward};
    CHECK(plan(HybridNorm::formula, attention).norms.empty());
    CHECK(plan(HybridNorm::formula, feed_forward).results[0][1].source == 1);  // the norm, not x
    CHECK(plan(HybridNormStar::formula, feed_forward).results[0][1].source == 1);
    CHECK(plan(HybridNormStar::formula, first).results[0][0].source == 0);  // Pre-LN
    CHECK(plan(NormFormer::formula, attention).norms.size() == 2);
    CHECK(plan(NormFormer::formula, feed_forward).norms.size() == 1);
}

TEST_CASE("the second stream holds the layer's input, through cross-attention too") {
    const auto second = [](const Formula& formula, SublayerKind kind) {
        return plan(formula, {2, 4, kind}).results[1][0].source;
    };
    for (const Formula& formula : {Parallel::formula, B2T::formula}) {
        CHECK(second(formula, SublayerKind::attention) == 0);
        CHECK(second(formula, SublayerKind::cross_attention) == 1);
        CHECK(second(formula, SublayerKind::feed_forward) == 1);
    }
    CHECK(plan(B2T::formula, {1, 4, SublayerKind::cross_attention}).steps.back().input.size() == 2);
    CHECK(plan(B2T::formula, {1, 4, SublayerKind::feed_forward}).steps.back().input.size() == 3);
}

TEST_CASE("hyper-connections start as Pre-LN: sublayers read the streams in turn, and both take what comes") {
    for (const SublayerKind kind : {SublayerKind::attention, SublayerKind::feed_forward}) {
        const Plan there = plan(HyperConnections::formula, {2, 4, kind});
        REQUIRE(there.gates.size() == 8);
        for (const Plan::Gate& gate : there.gates) {
            const std::string_view name = gate.name.view();
            CAPTURE(name);
            const bool second = kind == SublayerKind::feed_forward;
            if (name == "in0") CHECK(gate.start == (second ? 0.0 : 1.0));
            else if (name == "in1") CHECK(gate.start == (second ? 1.0 : 0.0));
            else if (name == "mix01" || name == "mix10") CHECK(gate.start == 0.0);
            else CHECK(gate.start == 1.0);
        }
    }
}
