// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "../gnuplot.hpp"
#include "files.hpp"

namespace warmup {

namespace np = normplace;

namespace {

/// x, predicted, measured and its standard error.
using Series = std::vector<std::array<double, 4>>;

/// gnuplot leaves out a point whose error is not a number; one seed has none.
double error_bar(const np::Moment& moment) {
    return std::isfinite(moment.standard_error) ? moment.standard_error : 0.0;
}

Series correlation_series(const PlacementResult& result) {
    Series series;
    for (const CorrelationPoint& point : result.correlation)
        series.push_back({point.learning_rate, point.predicted, point.measured.value, error_bar(point.measured)});
    return series;
}

Series size_series(const std::vector<SizePoint>& points) {
    Series series;
    for (const SizePoint& point : points)
        series.push_back(
            {static_cast<double>(point.size), point.predicted, point.measured.value, error_bar(point.measured)});
    return series;
}

/// Predictions as lines, measurements as points with two standard errors.
struct Panel {
    std::string name;
    std::vector<Series> series;

    void write_data(std::ostream& script) const {
        for (std::size_t i = 0; i < series.size(); ++i)
            gnuplot::data_block(script, name + "_" + std::to_string(i), series[i]);
    }

    /// `titles`: the legend's entry for each series, or none. `legend`: entries that only the legend shows.
    void write_plot(std::ostream& script, const std::vector<std::string>& titles,
                    const std::string& legend = "NaN notitle") const {
        script << "plot ";
        for (std::size_t i = 0; i < series.size(); ++i) {
            const gnuplot::Look& look = gnuplot::looks[i % gnuplot::looks.size()];
            const std::string colour = std::string(" lc rgb '") + look.colour + "'",
                              data = "$" + name + "_" + std::to_string(i);
            script << (any(series[i], 1) ? data + " using 1:2" : "NaN") << " with lines lw 2.5" << colour
                   << (i >= gnuplot::looks.size() ? " dt 2" : "")
                   << (titles.empty() ? " notitle, " : " title " + gnuplot::quoted(titles[i]) + ", ");
            if (any(series[i], 2))
                script << data << " using 1:3:(2*$4) with yerrorbars pt " << look.shape << " ps 0.9 lw 1.5" << colour
                       << " notitle, ";
        }
        script << legend << '\n';
    }

    /// Whether there is a number in the column.
    static bool any(const Series& series, std::size_t column) {
        return std::any_of(series.begin(), series.end(), [&](const auto& row) { return std::isfinite(row[column]); });
    }
    bool any_measured() const {
        return std::any_of(series.begin(), series.end(), [](const Series& s) { return any(s, 2); });
    }
};

/// The vertical axis of the panels with eta_half.
gnuplot::Axis vertical_axis(const std::vector<const Panel*>& panels) {
    double low = HUGE_VAL, high = 0.0;
    for (const Panel* panel : panels)
        for (const Series& series : panel->series)
            for (const auto& row : series)
                for (const double value : {row[1], row[2]})
                    if (std::isfinite(value) && value > 0.0) {
                        low = std::min(low, value);
                        high = std::max(high, value);
                    }
    if (!(high > 0.0)) low = high = 1.0;
    return gnuplot::logarithmic_axis(low, high);
}

std::string tick_list(const std::vector<SizePoint>& points) {
    std::ostringstream ticks;
    ticks << "set xtics (";
    for (std::size_t i = 0; i < points.size(); ++i) ticks << (i ? ", " : "") << points[i].size;
    ticks << ")\n";
    return ticks.str();
}

constexpr std::size_t most_with_formula = 6;

/// Of many placements those of which there is a number.
std::vector<PlacementResult> worth_showing(const std::vector<PlacementResult>& results) {
    std::vector<PlacementResult> shown;
    for (const PlacementResult& result : results)
        if (std::isfinite(result.predicted.eta_half.value) || result.measured) shown.push_back(result);
    return results.size() <= most_with_formula || shown.empty() ? results : shown;
}

std::string script_for(const std::string& file, const Options& options, const std::vector<PlacementResult>& results) {
    Panel rates{"rates", {}}, depths{"depths", {}}, widths{"widths", {}};
    std::vector<std::string> titles;
    const bool many = results.size() > most_with_formula;
    for (const PlacementResult& result : results) {
        rates.series.push_back(correlation_series(result));
        depths.series.push_back(size_series(result.depths));
        widths.series.push_back(size_series(result.widths));
        titles.push_back(result.predicted.placement + (many ? "" : ":  " + result.predicted.formula));
    }
    const bool measured = rates.any_measured() || depths.any_measured() || widths.any_measured();

    std::ostringstream script;
    const std::size_t legend_lines = std::max<std::size_t>(many ? (results.size() + 1) / 2 : results.size(), 4);
    script << gnuplot::terminal(file, 1500, 480 + 20 * static_cast<int>(legend_lines)) << "set output "
           << gnuplot::quoted(file) << "\nset datafile missing 'NaN'\n";
    for (const Panel* panel : {&rates, &depths, &widths}) panel->write_data(script);
    // The legend stands below the panels: the placements on the left, what line and point mean in the middle.
    const double legend_rows = 1.1 * static_cast<double>(legend_lines);
    script << "set multiplot layout 1,3 title \"{/:Bold The first step of " << options.optimizer_name() << "}\\n"
           << options.description()
           << "\" enhanced\n"
              "set border 3 lw 0.8\nset tics nomirror out\nset grid ytics lc rgb 'gray80' lw 0.6\nset bars 0.6\n"
              "set lmargin 10\nset rmargin 3\nset bmargin "
           << legend_rows + 4.5 << "\nset key left top Left reverse samplen 2.5 maxrows " << legend_lines
           << " at graph 0, character " << legend_rows + 0.5 << "\nset logscale x\n";
    script << "set title 'How alike tokens are after one step'\nset xlabel 'learning rate'\n"
              "set ylabel 'token correlation of the last hidden state'\nset format x '10^{%T}'\nset yrange [0:1.02]\n";
    const Series& first = rates.series.front();
    script << "set xrange [" << (first.empty() ? 1e-6 : 0.8 * first.front()[0]) << ':'
           << (first.empty() ? 1.0 : 1.25 * first.back()[0]) << "]\n";
    for (std::size_t i = 0; i < results.size(); ++i) {
        const double eta_half = results[i].predicted.eta_half.value;
        if (std::isfinite(eta_half))
            script << "set arrow from " << eta_half << ", graph 0 to " << eta_half
                   << ", graph 1 nohead dt 3 lw 2 lc rgb '" << gnuplot::looks[i % gnuplot::looks.size()].colour
                   << "'\n";
    }
    if (std::isfinite(options.learning_rate))
        script << "set arrow from " << options.learning_rate << ", graph 0 to " << options.learning_rate
               << ", graph 1 nohead dt 2 lw 1.5 lc rgb 'gray40'\n";
    rates.write_plot(script, titles);

    const gnuplot::Axis axis = vertical_axis({&depths, &widths});
    script << "unset arrow\nset logscale y\nset format x '%g'\nset format y '%.0t·10^{%T}'\nset yrange [" << axis.low
           << ':' << axis.high << "]\n"
           << axis.ticks
           << "set ylabel 'eta_{half}'\n"
              "set title 'The learning rate that halves their differences, over depth'\nset xlabel 'layers L'\nset "
              "xrange [1.7:56]\n"
           << tick_list(results.front().depths);
    std::string legend =
        "NaN with lines lw 2.5 lc rgb 'gray30' title 'predicted', NaN with lines dt 3 lw 2 lc rgb "
        "'gray30' title 'eta_{half}, predicted'";
    if (std::isfinite(options.learning_rate))
        legend += ", NaN with lines dt 2 lw 1.5 lc rgb 'gray40' title 'the wanted learning rate'";
    if (measured) legend += ", NaN with points pt 7 ps 0.9 lc rgb 'gray30' title 'measured, with two standard errors'";
    depths.write_plot(script, {}, legend);
    script << "set title '... and over width'\nset xlabel 'width D'\nset xrange [110:2400]\n"
           << tick_list(results.front().widths);
    widths.write_plot(script, {});
    script << "unset multiplot\nset output\n";
    return script.str();
}

}  // namespace

void write_plot(const std::string& file, const Options& options, const std::vector<PlacementResult>& results) {
    if (!gnuplot::run(script_for(file, options, worth_showing(results))))
        throw std::runtime_error("--plot: gnuplot failed to draw '" + file + "'");
}

}  // namespace warmup
