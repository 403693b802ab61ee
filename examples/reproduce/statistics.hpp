// SPDX-License-Identifier: BSD-3-Clause
//
// Means over seeds with their standard errors, and the sentences made of them.
#pragma once

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

namespace reproduce {

struct Mean {
    double value = std::numeric_limits<double>::quiet_NaN();
    double error = 0.0;  ///< standard error; 0 of one value, whose error nobody knows
};

inline Mean mean_of(const std::vector<double>& values) {
    Mean mean;
    if (values.empty()) return mean;
    const double count = static_cast<double>(values.size());
    double sum = 0.0, squares = 0.0;
    for (const double value : values) sum += value;
    mean.value = sum / count;
    for (const double value : values) squares += (value - mean.value) * (value - mean.value);
    if (values.size() > 1) mean.error = std::sqrt(squares / (count * (count - 1.0)));
    return mean;
}

/// a - b, of independent a and b.
inline Mean difference(const Mean& a, const Mean& b) { return {a.value - b.value, std::hypot(a.error, b.error)}; }

inline std::string number_text(double value, int digits = 2) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

/// "2.83 ± 0.01", or "2.83" of a single value
inline std::string text_of(const Mean& mean, int digits = 2) {
    return number_text(mean.value, digits) + (mean.error > 0.0 ? " ± " + number_text(mean.error, digits) : "");
}

/// Least squares on (log x, log y): the power of x.
inline double power(const std::vector<double>& x, const std::vector<double>& y) {
    double mean_x = 0.0, mean_y = 0.0, covariance = 0.0, variance = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        mean_x += std::log(x[i]) / static_cast<double>(x.size());
        mean_y += std::log(y[i]) / static_cast<double>(x.size());
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
        covariance += (std::log(x[i]) - mean_x) * (std::log(y[i]) - mean_y);
        variance += (std::log(x[i]) - mean_x) * (std::log(x[i]) - mean_x);
    }
    return covariance / variance;
}

}  // namespace reproduce
