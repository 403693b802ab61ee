// SPDX-License-Identifier: BSD-3-Clause
//
// A report on its own as a table: the gradient norm of every weight matrix and the stream, layer by layer. For a
// prediction beside its measurement see measure/compare.hpp.
//
//     std::cout << predict<PreLN>(model);
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include <normplace/analysis/report.hpp>
#include <normplace/detail/table_text.hpp>

namespace normplace {

/// At most 100 columns wide, and at most 24 layers long. A measured norm carries its standard error in units of its
/// last digit: 60.9(6). A predicted one that is less certain has a ~ behind it, and where the theory has none is a -.
inline std::ostream& operator<<(std::ostream& stream, const GradientReport& report) {
    using namespace detail;
    const double unit = unit_of(largest_weight_gradient(report));
    const std::vector<std::size_t> shown = shown_layers(report.layers.size());
    const auto cell = [&](const GradientNorm& gradient) {
        const std::string text = number(gradient.norm / unit, gradient.standard_error / unit);
        return report.seeds > 0 ? right(text, 10) : right(text, 9) + certainty(gradient);
    };

    stream << report.placement << "   " << report.formula << "\n\n"
           << "Gradient norm of each matrix, ";
    if (report.seeds == 0) stream << "predicted";
    else stream << "measured (root mean square over " << report.seeds << (report.seeds == 1 ? " seed)" : " seeds)");
    if (unit != 1.0) stream << ", in units of " << formatted("%g", unit);
    stream << ", and the stream after the layer\nlayer ";
    for (const char* symbol : weight_symbols) stream << right(symbol, 9) << ' ';
    stream << "  second moment  token correlation\n";
    for (const std::size_t l : shown) {
        stream << right(std::to_string(l + 1), 4) << " ";
        for (const GradientNorm* weight : weights(report.layers[l])) stream << cell(*weight);
        const StreamMoments& moments = report.layers[l].feed_forward.stream;
        stream << right(number(moments.second_moment.value), 15)
               << right(correlation_text(moments.token_correlation.value), 17) << '\n';
    }
    if (shown.size() < report.layers.size())
        stream << shown.size() << " of " << report.layers.size() << " layers are shown.\n";
    stream << explain_marks(report);
    stream << "\nreadout " << number(report.readout.norm, report.readout.standard_error) << ", loss "
           << formatted("%.5g", report.loss.value) << '\n';
    return stream;
}

}  // namespace normplace
