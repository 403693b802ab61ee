// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <sstream>
#include <stdexcept>

#include "../gnuplot.hpp"
#include "files.hpp"
#include "quantity.hpp"

namespace accuracy {

namespace np = normplace;

namespace {

using Series = std::vector<std::array<double, 2>>;

/// Measured and predicted norms of one placement: of W_q and W_k, and of the other matrices.
struct Points {
    Series query_key, others;
};

/// A plot of every layer of deep stacks would be heavy and show no more: the first, the middle and the last.
bool shown(std::size_t layer, std::size_t layers) { return layer == 0 || layer == layers / 2 || layer + 1 == layers; }

Points points_of(const std::string& placement, const std::vector<Comparison>& comparisons) {
    Points points;
    for (const Comparison& comparison : comparisons) {
        if (comparison.placement != placement) continue;
        const std::vector<double> resolution = comparison.resolution();
        for (const np::Compared& value : comparison.numbers) {
            const std::optional<Quantity> quantity = quantity_of(value.name);
            if (!quantity || !is_matrix(*quantity) || !(value.predicted > 0.0)) continue;
            const std::size_t layer = layer_of(value.name);
            if (!shown(layer, comparison.row.model.layers) || !(value.measured >= resolution[layer])) continue;
            (*quantity <= Quantity::wk ? points.query_key : points.others).push_back({value.measured, value.predicted});
        }
    }
    return points;
}

std::string script_for(const std::string& file, const Options& options, const std::vector<Comparison>& comparisons) {
    std::vector<Points> all;
    double low = HUGE_VAL, high = 0.0;
    for (const std::string& placement : options.placements) {
        all.push_back(points_of(placement, comparisons));
        for (const Series* series : {&all.back().query_key, &all.back().others})
            for (const auto& point : *series) {
                low = std::min({low, point[0], point[1]});
                high = std::max({high, point[0], point[1]});
            }
    }
    if (!(high > 0.0)) low = high = 1.0;
    low = std::pow(10.0, std::floor(std::log10(low) - 0.1));
    high = std::pow(10.0, std::ceil(std::log10(high) + 0.1));

    std::ostringstream script;
    const std::size_t legend_rows = std::max<std::size_t>((all.size() + 1) / 2, 3);
    script << gnuplot::terminal(file, 1200, 580 + 20 * static_cast<int>(legend_rows)) << "set output "
           << gnuplot::quoted(file) << '\n';
    for (std::size_t i = 0; i < all.size(); ++i) {
        gnuplot::data_block(script, "query_key_" + std::to_string(i), all[i].query_key);
        gnuplot::data_block(script, "others_" + std::to_string(i), all[i].others);
    }
    std::set<std::size_t> models;
    for (const Comparison& comparison : comparisons) models.insert(comparison.row.number);
    script << "set multiplot layout 1,2 title \"{/:Bold Gradient norms at initialization, predicted and measured}\\n"
           << models.size() << (models.size() == 1 ? " model" : " models")
           << ", first, middle and last layer; each point is one weight matrix\" enhanced\n"
              "set border 3 lw 0.8\nset tics nomirror out\nset grid lc rgb 'gray85' lw 0.6\n"
              "set lmargin 11\nset rmargin 3\nset bmargin "
           << legend_rows + 5
           << "\n"
              "set logscale x\nset format x '10^{%L}'\nset xlabel 'measured ||dLoss/dW||_F'\n"
              "set key left top Left reverse samplen 1.5 maxrows "
           << legend_rows << " at graph 0, character " << static_cast<double>(legend_rows) + 0.2 << '\n';
    script << "set xrange [" << low << ':' << high << "]\n";

    // Circles for W_q and W_k, which are the hard ones; points for the others, drawn first.
    const auto series = [&](const char* using_columns, bool titles) {
        std::string text;
        for (const bool query_key : {false, true})
            for (std::size_t i = 0; i < all.size(); ++i) {
                const char* colour = gnuplot::looks[i % gnuplot::looks.size()].colour;
                if (!(query_key ? all[i].query_key : all[i].others).empty())
                    text += ", $" + std::string(query_key ? "query_key_" : "others_") + std::to_string(i) + " using " +
                            using_columns + " with points pt " + (query_key ? "6 ps 0.6 lw 1.2" : "7 ps 0.45") +
                            " lc rgb '" + colour + "' notitle";
                if (titles && query_key)
                    text += ", NaN with points pt 7 ps 1 lc rgb '" + std::string(colour) + "' title " +
                            gnuplot::quoted(options.placements[i]);
            }
        return text;
    };
    script << "set title 'Both, on log axes'\nset logscale y\nset format y '10^{%L}'\nset ylabel 'predicted'\n"
           << "set yrange [" << low << ':' << high << "]\nplot x with lines lw 1 lc rgb 'gray40' notitle"
           << series("1:2", true) << '\n'
           << "unset logscale y\nset format y '%g'\nset title 'The difference'\n"
              "set ylabel 'predicted / measured - 1, in percent'\nset yrange [-25:25]\nset ytics 5\n"
              "plot 0 with lines lw 1 lc rgb 'gray40' notitle, 6 with lines dt 2 lw 1 lc rgb 'gray40' notitle, "
              "-6 with lines dt 2 lw 1 lc rgb 'gray40' notitle"
           << series("1:(v = 100*($2/$1 - 1), v > 25 ? 25 : v < -25 ? -25 : v)", false)
           << ", NaN with points pt 6 ps 1 lw 1.2 lc rgb 'gray30' title 'W_q, W_k'"
              ", NaN with points pt 7 ps 0.8 lc rgb 'gray30' title 'W_v, W_o, W_1, W_2'"
              ", NaN with lines dt 2 lw 1 lc rgb 'gray40' title '6 %; what is further off than 25 % lies at the edge'"
              "\nunset multiplot\nset output\n";
    return script.str();
}

}  // namespace

void write_plot(const std::string& file, const Options& options, const std::vector<Comparison>& comparisons) {
    if (!gnuplot::run(script_for(file, options, comparisons)))
        throw std::runtime_error("--plot: gnuplot failed to draw '" + file + "'");
}

}  // namespace accuracy
