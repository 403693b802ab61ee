// SPDX-License-Identifier: BSD-3-Clause
//
// From a placement's name, known only at run time, to the placement, as a value or as a type. The list of all
// placements stands here, once.
#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <normplace/placement/catalogue.hpp>

namespace normplace {

template <class... P>
struct PlacementList {};

/// Every placement of the catalogue, in the order in which tables show them.
using AllPlacements = PlacementList<PostLN, PreLN, NoNorm, ResPostNorm, PeriLN, DeepNorm, LayerNormScaling, SwinV2,
                                    ScaledPreLN, DepthScaled, LayerScale, ReZero, SkipInit, TFixup, Admin, LipsFormer,
                                    NGPT, Keel, MixLN, QKNorm, SubLN, NormFormer, HybridNorm, HybridNormStar, Parallel,
                                    ParallelOneNorm, ResiDual, B2T, HyperConnections>;

namespace detail {
template <class Function, class... P>
void for_each_placement(Function& function, PlacementList<P...>) {
    (function(P{}), ...);
}
}  // namespace detail

/// Calls `function(P{})` for each placement P of the catalogue.
template <class Function>
void for_each_placement(Function&& function) {
    detail::for_each_placement(function, AllPlacements{});
}

/// Every placement of the catalogue as a value, in the same order.
template <class... P>
std::array<const AnyPlacement*, sizeof...(P)> as_values(PlacementList<P...>) {
    return {&any_placement<P>...};
}
inline const auto& all_placements() {
    static const auto all = as_values(AllPlacements{});
    return all;
}

/// The names of all placements, separated by commas.
inline std::string placement_names() {
    std::string names;
    for (const AnyPlacement* placement : all_placements()) {
        if (!names.empty()) names += ", ";
        names += placement->name;
    }
    return names;
}

/// The placement named `name`.
/// @throws std::invalid_argument when there is no such placement; the message lists those there are
inline const AnyPlacement& placement_named(std::string_view name) {
    for (const AnyPlacement* placement : all_placements())
        if (placement->name == name) return *placement;
    throw std::invalid_argument("placement '" + std::string(name) + "' is unknown; the known ones are " +
                                placement_names());
}

namespace detail {

template <class Function, class First, class... Rest>
decltype(auto) visit_placement(std::string_view name, Function&& function, PlacementList<First, Rest...>) {
    if constexpr (sizeof...(Rest) > 0)
        if (name != First::name)
            return visit_placement(name, std::forward<Function>(function), PlacementList<Rest...>{});
    return std::forward<Function>(function)(First{});
}

}  // namespace detail

/// Calls `function(P{})` for the placement named `name` and returns what it returns (the same type for all placements).
/// @throws std::invalid_argument when there is no such placement; the message lists those there are
template <class Function>
decltype(auto) visit_placement(std::string_view name, Function&& function) {
    placement_named(name);
    return detail::visit_placement(name, std::forward<Function>(function), AllPlacements{});
}

}  // namespace normplace
