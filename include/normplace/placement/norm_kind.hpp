// SPDX-License-Identifier: BSD-3-Clause
//
// The kinds of norm, by name: what a model is built with when that is known only at run time, and what the theory takes
// them for. nn/norm.hpp and nn/dyt.hpp have their formulas.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace normplace {

enum class NormKind {
    layer_norm,
    rms_norm,
    scale_norm,              ///< one learned length, sqrt(D) at the start
    unit_offset_layer_norm,  ///< the gain counts from 1
    unit_offset_rms_norm,
    centre_norm,  ///< takes the mean away and does not divide
    unit_norm,    ///< length 1, nothing learned
    dyt           ///< tanh(alpha x), which is no norm at all
};

inline constexpr std::array<std::pair<std::string_view, NormKind>, 8> norm_kinds{
    {{"layer-norm", NormKind::layer_norm},
     {"rms-norm", NormKind::rms_norm},
     {"scale-norm", NormKind::scale_norm},
     {"unit-offset-layer-norm", NormKind::unit_offset_layer_norm},
     {"unit-offset-rms-norm", NormKind::unit_offset_rms_norm},
     {"centre-norm", NormKind::centre_norm},
     {"unit-norm", NormKind::unit_norm},
     {"dyt", NormKind::dyt}}};

constexpr std::string_view name(NormKind kind) {
    for (const auto& [text, named] : norm_kinds)
        if (named == kind) return text;
    return "unknown";
}

/// Whether it divides a row by its size, so that a factor on the whole row changes nothing.
constexpr bool divides_by_size(NormKind kind) { return kind != NormKind::centre_norm && kind != NormKind::dyt; }

/// Whether what it gives has second moment 1, at the start.
constexpr bool normalises(NormKind kind) { return divides_by_size(kind) && kind != NormKind::unit_norm; }

}  // namespace normplace
