// SPDX-License-Identifier: BSD-3-Clause
//
// A power law's exponent from a few points: the least-squares line on log axes.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace profile {

struct LogPoint {
    double x, y;
    double y_error = 0.0;  ///< standard error of y
};

struct Slope {
    double value = std::numeric_limits<double>::quiet_NaN();
    double standard_error = 0.0;  ///< from the points' errors
};

/// The slope of log y over log x. NaN when there are fewer than two points or a y is not positive.
inline Slope log_slope(const std::vector<LogPoint>& points) {
    Slope slope;
    const double count = static_cast<double>(points.size());
    if (points.size() < 2) return slope;
    double mean_x = 0.0, square = 0.0, product = 0.0, variance = 0.0;
    for (const LogPoint& p : points) mean_x += std::log(p.x) / count;
    for (const LogPoint& p : points) {
        const double x = std::log(p.x) - mean_x;
        square += x * x;
        product += x * (p.y > 0.0 ? std::log(p.y) : std::numeric_limits<double>::quiet_NaN());
        variance += x * x * (p.y_error / p.y) * (p.y_error / p.y);
    }
    slope.value = product / square;
    slope.standard_error = std::sqrt(variance) / square;
    return slope;
}

}  // namespace profile
