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

TEST_CASE("only DeepNorm changes the initialization") {
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
