// SPDX-License-Identifier: BSD-3-Clause
#include <sstream>

#include "overview.hpp"
#include "series.hpp"

namespace profile {

namespace {

/// A panel has no more lines than there are colours: larger groups are dealt out evenly over several panels.
std::vector<Group> panels_for(const std::vector<PlacementResult>& results) {
    std::vector<Group> panels;
    for (const Group& group : grouped(results)) {
        const std::size_t size = group.results.size(), most = gnuplot::looks.size(), count = (size + most - 1) / most;
        for (std::size_t i = 0; i < count; ++i) {
            const auto at = [&](std::size_t k) { return group.results.begin() + static_cast<std::ptrdiff_t>(k); };
            panels.push_back(
                {group.title + (i > 0 ? " (more)" : ""), {at(i * size / count), at((i + 1) * size / count)}});
        }
    }
    return panels;
}

/// A gradient of 0 has no place on a logarithmic axis.
bool all_zero(const Series& series) {
    return std::all_of(series.begin(), series.end(), [](const auto& row) { return row[1] == 0.0; });
}

/// Whether values span less than four decades.
bool is_narrow(const std::vector<Series>& panel) {
    const Bounds bounds = bounds_of(panel);
    return !(bounds.high > 1e4 * bounds.low);
}

}  // namespace

std::string overview_script(const std::string& file, const Options& options,
                            const std::vector<PlacementResult>& results) {
    const std::vector<Group> panels = panels_for(results);
    const std::size_t columns = panels.size() == 4 ? 2 : std::min<std::size_t>(panels.size(), 3),
                      rows = (panels.size() + columns - 1) / columns;
    std::ostringstream script;
    script << gnuplot::terminal(file, 500 * static_cast<int>(columns), 60 + 460 * static_cast<int>(rows))
           << "set output " << gnuplot::quoted(file) << "\nset datafile missing 'NaN'\n";
    std::vector<std::vector<Series>> series(panels.size());
    for (std::size_t p = 0; p < panels.size(); ++p)
        for (std::size_t i = 0; i < panels[p].results.size(); ++i) {
            const PlacementResult& result = *panels[p].results[i];
            const std::string name = std::to_string(p) + "_" + std::to_string(i);
            const Series predicted = layer_series(result.predicted),
                         measured = result.measured ? layer_series(*result.measured) : Series{};
            gnuplot::data_block(script, "predicted_" + name, predicted);
            gnuplot::data_block(script, "measured_" + name, measured);
            series[p].insert(series[p].end(), {predicted, measured});
        }
    // The panels have one vertical axis, but for those that would flatten the others.
    std::vector<Series> shared;
    for (const std::vector<Series>& panel : series)
        if (is_narrow(panel)) shared.insert(shared.end(), panel.begin(), panel.end());
    script << "set multiplot layout " << rows << ',' << columns
           << " title \"{/:Bold Gradients at initialization: lines are predicted"
           << (results.front().measured ? ", points measured, with two standard errors" : "") << "}\\n"
           << options.description()
           << "\" enhanced\n"
              "set border 3 lw 0.8\nset tics nomirror out\nset grid ytics lc rgb 'gray80' lw 0.6\nset bars 0.6\n"
              "set lmargin 10\nset rmargin 3\nset bmargin 7\nset key bmargin left Left reverse samplen 2 maxrows 3\n"
              "set logscale y\nset format y '%g'\nset ylabel '||dLoss/dW_2||_F'\n"
           << "set xlabel 'layer l' offset 0,0.5\nset xrange [0.5:" << static_cast<double>(options.model.layers) + 0.5
           << "]\n";
    for (std::size_t p = 0; p < panels.size(); ++p) {
        script << vertical_axis(is_narrow(series[p]) ? shared : series[p]) << "set title "
               << gnuplot::quoted(panels[p].title) << "\nplot ";
        for (std::size_t i = 0; i < panels[p].results.size(); ++i) {
            const PlacementResult& result = *panels[p].results[i];
            const gnuplot::Look& look = gnuplot::looks[i];
            const std::string colour = std::string(" lc rgb '") + look.colour + "'",
                              name = std::to_string(p) + "_" + std::to_string(i);
            const Series predicted = layer_series(result.predicted);
            const bool zero = all_zero(predicted), none = !any_value(predicted);
            script << (i > 0 ? ", " : "") << (zero || none ? "NaN" : "$predicted_" + name + " using 1:2")
                   << " with lines lw 2" << colour << " title "
                   << gnuplot::quoted(result.predicted.placement + (none   ? " (no prediction)"
                                                                    : zero ? " (0 everywhere)"
                                                                           : ""));
            if (result.measured && any_value(layer_series(*result.measured)) && !zero)
                script << ", $measured_" << name << " using 1:2:(2*$3) with yerrorbars pt " << look.shape
                       << " ps 0.7 lw 1.2" << colour << " notitle";
        }
        script << '\n';
    }
    script << "unset multiplot\nset output\n";
    return script.str();
}

}  // namespace profile
