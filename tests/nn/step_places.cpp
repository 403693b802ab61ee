// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/nn/step_places.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

namespace {

using Places = std::vector<detail::StepPlace>;
constexpr auto own_memory = detail::StepPlace::own, in_result = detail::StepPlace::result,
               in_sublayer_input = detail::StepPlace::sublayer_input;

Places places_of(const Formula& formula, bool norms_in_place = true) {
    return detail::step_places(plan(formula, Depth{}), norms_in_place);
}

}  // namespace

TEST_CASE("Pre-LN: the norm writes what the sublayer reads, the sublayer the result") {
    CHECK(places_of(PreLN::formula) == Places{in_sublayer_input, in_result});
}

TEST_CASE("Post-LN: the norm works in the result where it can") {
    CHECK(places_of(PostLN::formula) == Places{in_result, in_result});
    CHECK(places_of(PostLN::formula, false) == Places{in_result, own_memory});
}

TEST_CASE("a value that is read later keeps its memory") {
    // h is read by the sum after f, which therefore lies elsewhere.
    constexpr auto h = norm<in>(0.5 * x + norm(x));
    CHECK(places_of(h + f(x)) == Places{in_result, in_result, own_memory});
    // The sublayer reads a sum: only what nobody else reads may lie where that sum is made.
    CHECK(places_of(norm<in>(x) + f(x + norm<in>(x))) == Places{in_result, own_memory});
    CHECK(places_of(x + f(x + norm<in>(x))) == Places{in_sublayer_input, in_result});
}

TEST_CASE("the sublayer's input holds one value") {
    CHECK(places_of(x + f(norm<in>(x) + norm<out>(x))) == Places{in_sublayer_input, in_result, own_memory});
}

TEST_CASE("with two streams no step lies in a result: the other is still to be read") {
    CHECK(places_of(streams(norm(x + f(x)), stream(1, "r") + f(x))) == Places{own_memory, own_memory});
}

TEST_CASE("a plan without a sublayer") {
    const Plan output = plan(norm(x), Depth{});
    CHECK(detail::sublayer_step(output) == 1);
    CHECK(detail::step_places(output, true) == Places{in_result});
    CHECK(detail::sublayer_step(plan(PreLN::formula, Depth{})) == 1);
    CHECK(detail::is_plain(output.results[0]));
    CHECK(!detail::is_plain({{0.5, 0}}));
    CHECK(!detail::is_plain({{1.0, 0}, {1.0, 1}}));
}
