// SPDX-License-Identifier: BSD-3-Clause
//
// What is looked at, of all that a report names, and what an error of it is.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <normplace/measure/compare.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace accuracy {

enum class Quantity { wq, wk, wv, wo, w1, w2, gain, second_moment, token_correlation };

struct QuantityText {
    const char* symbol;  ///< in tables
    const char* word;    ///< in JSON
};
inline constexpr std::array<QuantityText, 9> quantity_texts{{{"W_q", "wq"},
                                                             {"W_k", "wk"},
                                                             {"W_v", "wv"},
                                                             {"W_o", "wo"},
                                                             {"W_1", "w1"},
                                                             {"W_2", "w2"},
                                                             {"norm gains", "gain"},
                                                             {"second moment", "second_moment"},
                                                             {"correlation", "token_correlation"}}};

inline const QuantityText& text_of(Quantity quantity) { return quantity_texts[static_cast<std::size_t>(quantity)]; }

/// Of a name as in `for_each_quantity`; nothing for what is not looked at. The input's moments are given, not
/// predicted.
inline std::optional<Quantity> quantity_of(std::string_view name) {
    if (name.ends_with(".gain")) return Quantity::gain;
    if (!name.starts_with("layers.")) return {};
    if (name.ends_with(".query.weight")) return Quantity::wq;
    if (name.ends_with(".key.weight")) return Quantity::wk;
    if (name.ends_with(".value.weight")) return Quantity::wv;
    if (name.ends_with(".out.weight")) return Quantity::wo;
    if (name.ends_with(".linear1.weight")) return Quantity::w1;
    if (name.ends_with(".linear2.weight")) return Quantity::w2;
    if (name.ends_with("stream.second_moment")) return Quantity::second_moment;
    if (name.ends_with("stream.token_correlation")) return Quantity::token_correlation;
    return {};
}

inline bool is_matrix(Quantity quantity) { return quantity <= Quantity::w2; }

/// From 0, of a name that begins with "layers."
inline std::size_t layer_of(const std::string& name) { return std::stoul(name.substr(std::string("layers.").size())); }

struct Error {
    double size;            ///< |predicted/measured - 1|; of a correlation |predicted - measured|
    double standard_error;  ///< of the measurement, in the same unit
    /// What two standard errors do not explain.
    double beyond_noise() const { return std::fmax(size - 2.0 * standard_error, 0.0); }
};

inline Error error_of(Quantity quantity, const normplace::Compared& value) {
    if (value.predicted == value.measured) return {0.0, 0.0};  // both 0, say, which have no ratio
    if (quantity == Quantity::token_correlation)
        return {std::abs(value.predicted - value.measured), value.standard_error};
    return {std::abs(value.ratio() - 1.0), value.standard_error / value.measured};
}

}  // namespace accuracy
