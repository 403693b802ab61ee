// SPDX-License-Identifier: BSD-3-Clause
//
// Numbers as tables show them: as many digits as mean something, in as few characters as that takes, so that twelve
// layers by six matrices fit a terminal of 100 columns.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <normplace/analysis/report.hpp>

namespace normplace::detail {

template <class... Values>
std::string formatted(const char* format, Values... values) {
    char text[128];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

inline std::string right(const std::string& text, std::size_t width) {
    return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}
inline std::string left(const std::string& text, std::size_t width) {
    return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

/// Digits after the decimal point that leave `digits` significant ones.
inline int decimals(double value, int digits) {
    if (value == 0.0 || !std::isfinite(value)) return digits - 1;
    const double magnitude = std::floor(std::log10(std::abs(value)) + 1e-12);
    return std::clamp(digits - 1 - static_cast<int>(magnitude), 0, 12);
}

/// Three significant digits in at most six characters: 0.0123, 1.23, 123, 1.2e-6; "-" for a value there is not.
inline std::string number(double value, int digits = 3) {
    if (!std::isfinite(value)) return "-";
    const double size = std::abs(value);
    if (value == 0.0) return "0";
    if (size >= 9999.5 || size < 0.01) {
        std::string text = formatted("%.*e", size >= 9999.5 ? 0 : digits - 2, value);
        // 1.2e-06 and 1.2e-6 say the same
        const std::size_t zero = text.find_last_of("+-") + 1;
        if (text[zero] == '0') text.erase(zero, 1);
        return text;
    }
    return formatted("%.*f", decimals(value, digits), value);
}

/// The same in at most five characters, with fewer digits where three do not fit.
inline std::string short_number(double value) {
    const std::string text = number(value);
    return text.size() <= 5 ? text : number(value, 2);
}

/// A token correlation, which lies between -1 and 1.
inline std::string correlation_text(double value) {
    return std::abs(value) < 9.9995 ? formatted("%.3f", value) : number(value);
}

/// A measured value with its standard error in units of its last digit: 60.9(6) is 60.9 +- 0.6.
inline std::string number(double value, double error) {
    if (!std::isfinite(value) || !std::isfinite(error) || error <= 0.0) return number(value);
    if (error >= std::abs(value) || std::abs(value) >= 9999.5 || std::abs(value) < 0.01) return number(value);
    // One digit of the error, or two when the first is a 1; never more than four digits of the value.
    int digits = decimals(error, 1);
    if (error * std::pow(10.0, digits) < 1.95) ++digits;
    digits = std::min(digits, decimals(value, 4));
    const double last = std::round(error * std::pow(10.0, digits));
    if (last < 1.0) return formatted("%.*f", digits, value);
    return formatted("%.*f(%.0f)", digits, value, last);
}

/// 1, 10^-3, 10^-6, ...: what to divide by so that the largest value has two to four digits before the point, which
/// leaves room for three decades below it.
inline double unit_of(double largest) {
    if (!std::isfinite(largest) || largest <= 0.0) return 1.0;
    return std::pow(10.0, 3.0 * std::floor(std::log10(largest / 9.9995) / 3.0));
}

/// The layers (from 0) that a table shows: all of them, or at most `rows`, evenly spaced, with the first and the last.
inline std::vector<std::size_t> shown_layers(std::size_t layers, std::size_t rows = 24) {
    std::vector<std::size_t> shown;
    if (layers <= rows) {
        for (std::size_t l = 0; l < layers; ++l) shown.push_back(l);
        return shown;
    }
    for (std::size_t r = 0; r < rows; ++r) shown.push_back(r * (layers - 1) / (rows - 1));
    return shown;
}

inline std::array<const GradientNorm*, 6> weights(const LayerReport& layer) {
    return {&layer.wq, &layer.wk, &layer.wv, &layer.wo, &layer.w1, &layer.w2};
}
inline constexpr std::array<const char*, 6> weight_symbols{"W_q", "W_k", "W_v", "W_o", "W_1", "W_2"};

/// What stands behind a predicted norm.
inline char certainty(const GradientNorm& gradient) { return gradient.validity == Validity::less_certain ? '~' : ' '; }

/// One line on the marks that the weights of a predicted report have; none where they have none.
inline std::string explain_marks(const GradientReport& report) {
    bool less_certain = false, fails = false;
    for (const std::size_t l : shown_layers(report.layers.size()))
        for (const GradientNorm* weight : weights(report.layers[l])) {
            less_certain = less_certain || weight->validity == Validity::less_certain;
            fails = fails || weight->validity == Validity::fails;
        }
    if (!less_certain && !fails) return {};
    return std::string(less_certain ? "~ less certain" : "") + (less_certain && fails ? ", " : "") +
           (fails ? "- beyond the theory" : "") + ": the report's warnings say why.\n";
}

/// The largest finite weight-gradient norm of a report: what the table's unit is chosen by.
inline double largest_weight_gradient(const GradientReport& report) {
    double largest = 0.0;
    for (const LayerReport& layer : report.layers)
        for (const GradientNorm* weight : weights(layer))
            if (std::isfinite(weight->norm)) largest = std::max(largest, weight->norm);
    return largest;
}

}  // namespace normplace::detail
