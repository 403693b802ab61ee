// SPDX-License-Identifier: BSD-3-Clause
//
// From a placement's name, known only at run time, to its type. The list of all placements stands here, once.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <normplace/placement/catalogue.hpp>

namespace normplace {

template <class... P>
struct PlacementList {};

/// Every placement of the catalogue, in the order in which tables show them.
using AllPlacements =
    PlacementList<PostLN, PreLN, NoNorm, ResPostNorm, PeriLN, DeepNorm, LayerNormScaling, SwinV2, ScaledPreLN,
                  DepthScaled, LayerScale, SkipInit, TFixup, Admin, LipsFormer, NGPT, Keel, MixLN, QKNorm, SubLN,
                  NormFormer, HybridNorm, HybridNormStar, Parallel, ResiDual, B2T, HyperConnections>;

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

/// The names of all placements, separated by commas.
inline std::string placement_names() {
    std::string names;
    for_each_placement([&](auto placement) {
        if (!names.empty()) names += ", ";
        names += decltype(placement)::name;
    });
    return names;
}

namespace detail {

template <class Function, class First, class... Rest>
decltype(auto) visit_placement(std::string_view name, Function&& function, PlacementList<First, Rest...>) {
    if (name == First::name) return std::forward<Function>(function)(First{});
    if constexpr (sizeof...(Rest) > 0)
        return visit_placement(name, std::forward<Function>(function), PlacementList<Rest...>{});
    else
        throw std::invalid_argument("placement '" + std::string(name) + "' is unknown; the known ones are " +
                                    placement_names());
}

}  // namespace detail

/// Calls `function(P{})` for the placement named `name` and returns what it returns (the same type for all placements).
/// @throws std::invalid_argument when there is no such placement; the message lists those there are
template <class Function>
decltype(auto) visit_placement(std::string_view name, Function&& function) {
    return detail::visit_placement(name, std::forward<Function>(function), AllPlacements{});
}

}  // namespace normplace
