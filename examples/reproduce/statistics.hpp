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
    double error = std::numeric_limits<double>::quiet_NaN();  ///< standard error; of one value nobody knows it
    std::size_t count = 0;
};

inline Mean mean_of(const std::vector<double>& values) {
    Mean mean;
    if (values.empty()) return mean;
    mean.count = values.size();
    const double count = static_cast<double>(values.size());
    double sum = 0.0, squares = 0.0;
    for (const double value : values) sum += value;
    mean.value = sum / count;
    for (const double value : values) squares += (value - mean.value) * (value - mean.value);
    if (values.size() > 1) mean.error = std::sqrt(squares / (count * (count - 1.0)));
    return mean;
}

/// Half of the 95 % interval of a mean: Student's t times the standard error.
inline double uncertainty(const Mean& mean) {
    constexpr double t[] = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26};
    const std::size_t freedom = mean.count - 1;
    return mean.error * (freedom <= 9 ? t[freedom - 1] : 2.0 + 2.3 / static_cast<double>(freedom));
}

inline std::string number_text(double value, int digits = 2) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

/// "2.83 ± 0.01", or "2.83" of a single value
inline std::string text_of(const Mean& mean, int digits = 2) {
    return number_text(mean.value, digits) + (std::isfinite(mean.error) ? " ± " + number_text(mean.error, digits) : "");
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
