// SPDX-License-Identifier: BSD-3-Clause
//
// What a formula's tree says about itself at compile time: how many sublayers, which norm slots, which scalars.
#include <doctest/doctest.h>

#include <normplace/placement/formula.hpp>

#include <type_traits>

using namespace normplace;

namespace {

constexpr auto pre_ln = x + f(norm(x));
constexpr auto peri_ln = x + norm<out>(f(norm<in>(x)));
constexpr auto half = x + 0.5 * f(x);

constexpr Scalar depth_law = scalar("depth", [](const Depth& d) { return static_cast<double>(d.layer * d.layers); });
constexpr auto scaled = norm(depth_law * x + f(x));

}  // namespace

TEST_CASE("a formula's type is its syntax tree") {
    using namespace syntax;
    static_assert(std::is_same_v<std::remove_const_t<decltype(pre_ln)>, Sum<Stream, Sublayer<Norm<Label{}, Stream>>>>);
    static_assert(std::is_same_v<std::remove_const_t<decltype(half)>, Sum<Stream, Scaled<Sublayer<Stream>>>>);
    static_assert(
        std::is_same_v<std::remove_const_t<decltype(scaled)>, Norm<Label{}, Sum<Scaled<Stream>, Sublayer<Stream>>>>);
    static_assert(Expression<decltype(pre_ln)>);
    static_assert(!Expression<double>);
    static_assert(!Expression<Scalar>);
}

TEST_CASE("sublayers are counted wherever they stand") {
    static_assert(syntax::count(x).sublayers == 0);
    static_assert(syntax::count(norm(x)).sublayers == 0);
    static_assert(syntax::count(pre_ln).sublayers == 1);
    static_assert(syntax::count(scaled).sublayers == 1);
    static_assert(syntax::count(f(f(x))).sublayers == 2);
    static_assert(syntax::count(f(f(x))).streams == 1);
    static_assert(syntax::count(f(x) + (x + 2.0 * norm(f(x)))).streams == 3);
    static_assert(syntax::count_terms(f(x) + 0.5 * (x + 2.0 * norm(f(x) + x))) == 3);
    static_assert(syntax::count(f(x) + (x + 2.0 * norm(f(x)))).sublayers == 2);
}

TEST_CASE("slots are listed as they are read, each norm with its own") {
    static_assert(syntax::slots(x).empty());
    static_assert(syntax::slots(pre_ln).size() == 1);
    static_assert(syntax::slots(pre_ln)[0] == Label{});
    static_assert(syntax::slots(peri_ln).size() == 2);
    static_assert(syntax::slots(peri_ln)[0] == out);
    static_assert(syntax::slots(peri_ln)[1] == in);
    static_assert(syntax::slot_index(syntax::slots(peri_ln), in) == 1);
    static_assert(syntax::slot_index(syntax::slots(peri_ln), Label{"elsewhere"}) == 2);
    static_assert(syntax::slots(norm<"mine">(x))[0] == Label{"mine"});
}

TEST_CASE("a slot used twice is seen, the unnamed one included") {
    static_assert(syntax::all_distinct(syntax::slots(peri_ln)));
    static_assert(!syntax::all_distinct(syntax::slots(x + norm(f(norm(x))))));
    static_assert(!syntax::all_distinct(syntax::slots(norm<in>(x) + 2.0 * norm<out>(f(norm<in>(x))))));
}

TEST_CASE("a scalar is a constant, or a law of the depth") {
    CHECK(half.right.factor.at(Depth{}) == 0.5);
    CHECK(half.right.factor.at(Depth{.layer = 3, .layers = 7}) == 0.5);
    CHECK(depth_law.at(Depth{.layer = 3, .layers = 7}) == 21.0);
    CHECK(scaled.input.left.factor.at(Depth{.layer = 2, .layers = 5}) == 10.0);
    CHECK(scaled.input.left.factor.name == Label{"depth"});
}

TEST_CASE("a scalar multiplies what stands right of it, a sum in brackets included") {
    constexpr auto sum = 2.0 * (x + f(x));
    static_assert(std::is_same_v<decltype(sum.input), syntax::Sum<syntax::Stream, syntax::Sublayer<syntax::Stream>>>);
    constexpr auto nested = depth_law * (0.5 * f(x));
    CHECK(nested.factor.at(Depth{.layer = 2, .layers = 2}) * nested.input.factor.at(Depth{}) == 2.0);
}

TEST_CASE("a label holds up to 23 characters and compares by its text") {
    static_assert(Label{}.view().empty());
    static_assert(Label{"in"} == in);
    static_assert(!(Label{"in"} == out));
    static_assert(Label{"12345678901234567890123"}.view().size() == 23);
}
