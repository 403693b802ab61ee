// SPDX-License-Identifier: BSD-3-Clause
#include <stdexcept>

#include "files.hpp"
#include "overview.hpp"
#include "series.hpp"

namespace profile {

namespace np = normplace;

namespace {

using gnuplot::data_block;

Series depth_series(const std::vector<DepthPoint>& depths, bool measured) {
    Series series;
    for (const DepthPoint& d : depths) {
        const np::GradientNorm& gradient = measured ? d.measured : d.predicted;
        series.push_back({static_cast<double>(d.layers), gradient.norm, error_bar(gradient)});
    }
    return series;
}

/// One panel: predictions as lines, measurements as points with two standard errors, the paper as dots.
struct Panel {
    std::string name;
    std::vector<Series> predicted, measured, paper;

    void write_data(std::ostream& script) const {
        for (std::size_t i = 0; i < predicted.size(); ++i) {
            data_block(script, name + "_predicted_" + std::to_string(i), predicted[i]);
            data_block(script, name + "_measured_" + std::to_string(i), measured[i]);
            data_block(script, name + "_paper_" + std::to_string(i), paper[i]);
        }
    }

    /// `titles`: the legend's entry for each series, or none.
    void write_plot(std::ostream& script, const std::vector<std::string>& titles) const {
        for (std::size_t i = 0; i < predicted.size(); ++i) {
            const gnuplot::Look& look = gnuplot::looks[i % gnuplot::looks.size()];
            const std::string colour = std::string(" lc rgb '") + look.colour + "'", index = std::to_string(i);
            script << (i == 0 ? "plot " : ", ");
            if (any_value(paper[i]))
                script << "$" << name << "_paper_" << index << " using 1:2 with lines dt 3 lw 2" << colour
                       << " notitle, ";
            script << "$" << name << "_predicted_" << index << " using 1:2 with lines lw 2.5" << colour
                   << (titles.empty() ? " notitle" : " title " + gnuplot::quoted(titles[i]));
            if (any_value(measured[i]))
                script << ", $" << name << "_measured_" << index << " using 1:2:(2*$3) with yerrorbars pt "
                       << look.shape << " ps 0.9 lw 1.5" << colour << " notitle";
        }
    }
};

/// What the paper says, through the last point of the prediction.
Series paper_series(const PlacementResult& result, const Series& predicted, bool over_layers) {
    const std::string& placement = result.predicted.placement;
    if (predicted.empty() || (placement != "pre-ln" && placement != "post-ln")) return {};
    const bool post = placement == "post-ln";
    const double last_x = predicted.back()[0], last_y = predicted.back()[1];
    Series series;
    for (const auto& [x, y, error] : predicted) {
        double factor = 1.0;
        if (over_layers && post) factor = std::pow(2.0 / 3.0, (last_x - x) / 2.0);
        if (!over_layers && !post) factor = std::sqrt(last_x / x);
        series.push_back({x, last_y * factor, 0.0});
    }
    return series;
}

std::string script_for(const std::string& file, const Options& options, const std::vector<PlacementResult>& results) {
    Panel layers{"layers", {}, {}, {}}, depths{"depths", {}, {}, {}};
    for (const PlacementResult& result : results) {
        layers.predicted.push_back(layer_series(result.predicted));
        layers.measured.push_back(result.measured ? layer_series(*result.measured) : Series{});
        layers.paper.push_back(paper_series(result, layers.predicted.back(), true));
        depths.predicted.push_back(depth_series(result.depths, false));
        depths.measured.push_back(depth_series(result.depths, true));
        depths.paper.push_back(paper_series(result, depths.predicted.back(), false));
    }
    std::vector<Series> all;
    std::vector<std::string> titles;
    bool has_measured = false, has_paper = false;
    for (const Panel* panel : {&layers, &depths})
        for (std::size_t i = 0; i < results.size(); ++i) {
            all.insert(all.end(), {panel->predicted[i], panel->measured[i]});
            has_measured = has_measured || any_value(panel->measured[i]);
            has_paper = has_paper || any_value(panel->paper[i]);
        }
    for (const PlacementResult& result : results)
        titles.push_back(result.predicted.placement + ":  " + result.predicted.formula);

    std::ostringstream script;
    script << gnuplot::terminal(file, 1200, 600) << "set output " << gnuplot::quoted(file)
           << "\nset datafile missing 'NaN'\n";
    layers.write_data(script);
    depths.write_data(script);
    // The legend stands below the panels: the placements on the left, what line, point and dots mean on the right.
    const double legend_rows = 1.1 * static_cast<double>(std::max<std::size_t>(results.size(), 3));
    script << "set multiplot layout 1,2 title \"{/:Bold Gradients at initialization}\\n"
           << options.description()
           << "\" enhanced\n"
              "set border 3 lw 0.8\nset tics nomirror out\nset grid ytics lc rgb 'gray80' lw 0.6\nset bars 0.6\n"
              "set lmargin 10\nset rmargin 3\nset bmargin "
           << legend_rows + 4.5 << "\nset key left top Left reverse samplen 2.5 at graph 0, character "
           << legend_rows + 0.5
           << "\n"
              "set logscale y\nset format y '%g'\nset ylabel '||dLoss/dW_2||_F'\n"
           << vertical_axis(all) << "set title 'Over the layers of one stack'\nset xlabel 'layer l'\nset xrange [0.5:"
           << static_cast<double>(options.model.layers) + 0.5 << "]\n";
    if (options.model.layers <= 24) script << "set xtics 1\n";
    layers.write_plot(script, titles);
    script << "\nset title 'Last layer, over the depth of the stack'\nset xlabel 'layers L'\n"
              "set logscale x\nset xrange [1.8:27]\nset xtics (";
    for (std::size_t i = 0; i < results.front().depths.size(); ++i)
        script << (i ? ", " : "") << results.front().depths[i].layers;
    script << ")\n";
    depths.write_plot(script, {});
    // Entries that only the legend shows.
    script << ", NaN with lines lw 2.5 lc rgb 'gray30' title 'predicted'";
    if (has_measured)
        script << ", NaN with points pt 7 ps 0.9 lc rgb 'gray30' title 'measured, with two standard errors'";
    if (has_paper)
        script << ", NaN with lines dt 3 lw 2 lc rgb 'gray30' title 'Xiong et al. 2020: extension (left), Theorem 1 "
                  "(right)'";
    script << "\nunset multiplot\nset output\n";
    return script.str();
}

}  // namespace

void write_plot(const std::string& file, const Options& options, const std::vector<PlacementResult>& results) {
    const auto script = options.is_overview() ? overview_script : script_for;
    if (!gnuplot::run(script(file, options, results)))
        throw std::runtime_error("--plot: gnuplot failed to draw '" + file + "'");
}

}  // namespace profile
