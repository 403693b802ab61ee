// SPDX-License-Identifier: BSD-3-Clause
//
// From a name to a placement's type and back; an unknown name is answered with the known ones.
#include <doctest/doctest.h>

#include <normplace/placement/visit.hpp>

#include <set>
#include <string>
#include <vector>

using namespace normplace;

namespace {

template <class Expected>
void check_name(std::string_view name) {
    CAPTURE(name);
    CHECK(visit_placement(name, [](auto placement) { return std::is_same_v<decltype(placement), Expected>; }));
}

}  // namespace

TEST_CASE("every name finds its type") {
    check_name<PostLN>("post-ln");
    check_name<PreLN>("pre-ln");
    check_name<NoNorm>("none");
    check_name<ResPostNorm>("res-post-norm");
    check_name<PeriLN>("peri-ln");
    check_name<DeepNorm>("deep-norm");
    check_name<LayerNormScaling>("ln-scaling");
}

TEST_CASE("every placement is listed once, and found by its own name") {
    std::vector<std::string> names;
    for_each_placement([&](auto placement) { names.emplace_back(decltype(placement)::name); });
    CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
    REQUIRE(all_placements().size() == names.size());
    for (std::size_t i = 0; i < names.size(); ++i) CHECK(all_placements()[i]->name == names[i]);
    for (const std::string& name : names)
        CHECK(visit_placement(name, [](auto placement) { return std::string(decltype(placement)::name); }) == name);
    for (const std::string& name : names) CHECK(placement_named(name).name == name);
    CHECK(placement_names().starts_with("post-ln, pre-ln, none, res-post-norm, peri-ln, deep-norm, ln-scaling, "));
}

TEST_CASE("an unknown name is refused, and the known ones are listed") {
    const auto visit = [](std::string_view name) { visit_placement(name, [](auto) {}); };
    const std::string sentence = "placement 'preln' is unknown; the known ones are " + placement_names();
    CHECK_THROWS_WITH_AS(visit("preln"), sentence.c_str(), std::invalid_argument);
    CHECK_THROWS_WITH_AS(placement_named("preln"), sentence.c_str(), std::invalid_argument);
    CHECK_THROWS_AS(visit(""), std::invalid_argument);
    CHECK_THROWS_AS(visit("Pre-LN"), std::invalid_argument);
}
