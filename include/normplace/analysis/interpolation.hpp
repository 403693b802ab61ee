// SPDX-License-Identifier: BSD-3-Clause
//
// Cubic interpolation between equidistant nodes 0, 1, 2, ...: what the estimator's tables use, which compute a node
// when they are first asked near it. A prediction asks for thousands of neighbouring values.
#pragma once

#include <cmath>
#include <cstddef>

namespace normplace::detail {

/// Four neighbouring nodes and their Lagrange weights.
struct CubicPlace {
    std::size_t first;
    double weight[4];
};

/// @param position in units of the nodes' distance, not negative
inline CubicPlace cubic_place(double position) {
    const double first = std::fmax(std::floor(position) - 1.0, 0.0);
    const double a = position - first, b = a - 1.0, c = a - 2.0, d = a - 3.0;
    return {static_cast<std::size_t>(first), {-b * c * d / 6.0, a * c * d / 2.0, -a * b * d / 2.0, a * b * c / 6.0}};
}

}  // namespace normplace::detail
