// SPDX-License-Identifier: BSD-3-Clause
//
// What the literature has instead: how the gradient of a layer compares with that of the last, from the layer's number
// alone.
#pragma once

#include <cmath>
#include <cstddef>
#include <normplace/analysis/paper.hpp>
#include <normplace/analysis/report.hpp>
#include <string_view>

namespace accuracy {

/// Xiong et al. 2020's extension to all layers, from 1; NaN for a placement of which it does not speak.
inline double xiong_law(std::string_view placement, std::size_t layer, std::size_t layers) {
    if (placement == "post-ln") return normplace::paper::extension_post_ln(layer, layers);
    if (placement == "pre-ln") return normplace::paper::extension_pre_ln(layer, layers);
    return normplace::not_available;
}

/// Kedia et al. 2024 (arXiv:2403.09635), for the gradient of all of a layer's matrices at Xavier initialization.
/// Pre-LN: from layer l to l + 1 it falls by sqrt(1 + 1/l), so that it goes as l^(-1/2). Post-LN: it grows by a
/// constant factor, which they fit to 192 layers of width 1024 as 1.024. NaN for other placements.
inline double kedia_law(std::string_view placement, std::size_t layer, std::size_t layers) {
    const double number = static_cast<double>(layer), last = static_cast<double>(layers);
    if (placement == "post-ln") return std::pow(1.024, number - last);
    if (placement == "pre-ln") return std::sqrt(last / number);
    return normplace::not_available;
}

}  // namespace accuracy
