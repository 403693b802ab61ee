// SPDX-License-Identifier: BSD-3-Clause
//
// What a formula says about itself at compile time: its nodes, how many sublayers, which slots, which streams.
#include <doctest/doctest.h>

#include <normplace/placement/formula.hpp>

using namespace normplace;

namespace {

constexpr auto r = stream(1, "r");
constexpr auto pre_ln = x + f(norm(x));
constexpr auto post_ln = norm(x + f(x));
constexpr Condition early{"early", [](const Depth& d) { return 2 * d.layer <= d.layers; }};
constexpr auto mixed = when(early, post_ln, pre_ln);

constexpr Scalar depth_law = scalar("depth", [](const Depth& d) { return static_cast<double>(d.layer * d.layers); });

/// The nodes of one kind.
constexpr std::size_t count(const Formula& formula, Node::Kind kind) { return syntax::count(formula, kind); }

}  // namespace

TEST_CASE("operands stand before what uses them, and equal nodes are one") {
    static_assert(pre_ln.size == 4);
    for (std::size_t i = 0; i < mixed.size; ++i) {
        const Node& node = mixed.nodes[i];
        if (node.kind != Node::Kind::stream) CHECK(node.first < i);
        if (node.kind == Node::Kind::sum || node.kind == Node::Kind::choice) CHECK(node.second < i);
    }
    static_assert(count(x + f(x) + f(x), Node::Kind::sublayer) == 1);  // the same f(x)
    static_assert(count(x + f(x) + f(norm(x)), Node::Kind::sublayer) == 2);
    static_assert(count(streams(norm(x + f(x)), r + f(x)), Node::Kind::sublayer) == 1);
    static_assert(count(0.5 * x + 0.25 * x, Node::Kind::scaled) == 2);
    static_assert(count(norm<in>(x) + norm<out>(x), Node::Kind::norm) == 2);
    static_assert(x + f(x) == x + f(x));
    static_assert(!(x + f(x) == x + f(norm(x))));
}

TEST_CASE("sublayers are counted for every way in which choices can fall") {
    static_assert(syntax::has_sublayers(pre_ln, 1));
    static_assert(syntax::has_sublayers(norm(x), 0));
    static_assert(syntax::has_sublayers(f(f(x)), 2));
    static_assert(syntax::has_sublayers(mixed, 1));
    static_assert(!syntax::has_sublayers(when(early, x + f(x), x), 1));
    static_assert(!syntax::has_sublayers(when(early, x, x + f(x)), 1));
    static_assert(syntax::has_sublayers(when(in_attention, mixed, f(x)), 1));
    static_assert(syntax::count_norms(mixed) == 2);
    static_assert(syntax::count_gates(learned("a", 0.0) * x + gate("b", 1.0) * x) == 2);
}

TEST_CASE("a slot used twice is seen, the unnamed one included; once on each side of a choice is once") {
    static_assert(syntax::has_distinct_names(x + norm<out>(f(norm<in>(x)))));
    static_assert(!syntax::has_distinct_names(x + norm(f(norm(x)))));
    static_assert(!syntax::has_distinct_names(norm<in>(x) + 2.0 * norm<out>(f(norm<in>(2.0 * x)))));
    static_assert(syntax::has_distinct_names(f(norm(x)) + norm(x)));  // one norm, read twice
    static_assert(syntax::has_distinct_names(mixed));
    static_assert(!syntax::has_distinct_names(learned("a", 0.0) * x + learned("a", 0.0) * f(x)));
}

TEST_CASE("streams that are read must be given") {
    static_assert(syntax::reads_streams_below(x + f(x), 1));
    static_assert(!syntax::reads_streams_below(x + f(r), 1));
    static_assert(streams(norm(x + f(x)), r + f(x)).result_count == 2);
    static_assert(when(early, streams(x + f(x), r), streams(r, x + f(x))).result_count == 2);
}

TEST_CASE("a formula that is not the same everywhere says so") {
    static_assert(!syntax::depends_on_depth(0.5 * x + f(norm(x))));
    static_assert(syntax::depends_on_depth(depth_law * x + f(x)));
    static_assert(syntax::depends_on_depth(mixed));
    static_assert(syntax::depends_on_depth(x + gate("g", [](const Depth&) { return 1.0; }) * f(x)));
    static_assert(!syntax::depends_on_depth(x + gate("g", 0.1) * f(x)));
}

TEST_CASE("whether a norm's argument weighs the stream against f") {
    static_assert(syntax::weighs_stream_in_norm(norm(depth_law * x + f(x))));
    static_assert(syntax::weighs_stream_in_norm(norm(f(x) + gate("g", 0.5) * (x + r))));
    static_assert(syntax::weighs_stream_in_norm(when(early, x + f(x), norm<out>(2.0 * x + f(norm<in>(x))))));
    static_assert(!syntax::weighs_stream_in_norm(norm(x + 0.5 * f(x))));
    static_assert(!syntax::weighs_stream_in_norm(2.0 * x + norm(f(norm<in>(2.0 * x)))));
    static_assert(!syntax::weighs_stream_in_norm(norm(2.0 * x + norm<in>(f(x)))));
}

TEST_CASE("a scalar is a constant, or a law of the depth") {
    CHECK(Scalar{{}, 0.5, nullptr}.at(Depth{.layer = 3, .layers = 7}) == 0.5);
    CHECK(depth_law.at(Depth{.layer = 3, .layers = 7}) == 21.0);
    CHECK(depth_law.name == Label{"depth"});
}

TEST_CASE("what the grammar cannot hold is refused") {
    CHECK_THROWS_WITH(f(streams(x, r)), "normplace: streams(...) stands outermost in a formula");
    CHECK_THROWS_WITH(x + streams(x, r), "normplace: streams(...) stands outermost in a formula");
    CHECK_THROWS_WITH(when(early, x, streams(x, r)),
                      "normplace: both sides of when(...) have the same number of streams");
    CHECK_THROWS_WITH(stream(4, "s"), "normplace: a formula has at most 4 streams");
    const auto many = [] {
        Formula sum = x;
        for (int i = 1; i < 40; ++i) sum = sum + static_cast<double>(i) * x;
        return sum;
    };
    CHECK_THROWS_WITH(many(), "normplace: a formula has at most 64 different terms");
}

TEST_CASE("a label holds up to 23 characters and compares by its text") {
    static_assert(Label{}.view().empty());
    static_assert(Label{"in"} == in);
    static_assert(!(Label{"in"} == out));
    static_assert(Label{"12345678901234567890123"}.view().size() == 23);
}
