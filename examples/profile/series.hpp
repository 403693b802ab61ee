// SPDX-License-Identifier: BSD-3-Clause
//
// What the plots show of the reports.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "../gnuplot.hpp"
#include "run.hpp"

namespace profile {

/// x, value and standard error.
using Series = std::vector<std::array<double, 3>>;

/// gnuplot leaves out a point whose error is not a number; one seed has none.
inline double error_bar(const normplace::GradientNorm& gradient) {
    return std::isfinite(gradient.standard_error) ? gradient.standard_error : 0.0;
}

inline Series layer_series(const normplace::GradientReport& report) {
    Series series;
    for (std::size_t l = 0; l < report.layers.size(); ++l)
        series.push_back({static_cast<double>(l + 1), report.layers[l].w2.norm, error_bar(report.layers[l].w2)});
    return series;
}

inline bool any_value(const Series& series) {
    return std::any_of(series.begin(), series.end(), [](const auto& row) { return std::isfinite(row[1]); });
}

struct Bounds {
    double low = HUGE_VAL, high = 0.0;
};

/// Of what a logarithmic axis can show.
inline Bounds bounds_of(const std::vector<Series>& all) {
    Bounds bounds;
    for (const Series& series : all)
        for (const auto& [x, y, error] : series)
            if (std::isfinite(y) && y > 0.0) {
                bounds.low = std::min(bounds.low, y);
                bounds.high = std::max(bounds.high, y);
            }
    return bounds;
}

/// One that holds all of them, logarithmic.
inline std::string vertical_axis(const std::vector<Series>& all) {
    Bounds bounds = bounds_of(all);
    if (!(bounds.high > 0.0)) bounds = {1.0, 1.0};
    const gnuplot::Axis axis = gnuplot::logarithmic_axis(bounds.low, bounds.high);
    std::ostringstream text;
    text << "set yrange [" << axis.low << ':' << axis.high << "]\n"
         << (axis.ticks.empty() ? "set ytics autofreq\n" : axis.ticks);
    return text.str();
}

}  // namespace profile
