// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>

namespace shared {

/// Of a table's first column, which holds two blanks and a placement's name: 16, or wide enough for every name.
template <class Results>
std::size_t name_width(const Results& results) {
    std::size_t width = 16;
    for (const auto& result : results) width = std::max(width, result.predicted.placement.size() + 3);
    return width;
}

}  // namespace shared
