// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "../gnuplot.hpp"
#include "page_parts.hpp"

namespace reproduce {

namespace {

constexpr std::size_t width = 720, plot_height = 400, line_height = 18;  // of the SVG
constexpr std::size_t longest_name = 62;                                 // characters that fit the legend

/// For lines: solid, then dashes that can be told apart without colour.
constexpr std::array<const char*, 7> dashes{"1",          "(14,5)",        "(3,4)", "(12,4,2,4)",
                                            "(24,5,8,5)", "(8,3,2,3,2,3)", "(7,3)"};

struct Point {
    double x, y, error;  // error is 0 where it is unknown
    bool has_error;
};

/// What can be drawn of a series: its pieces without a gap.
using Pieces = std::vector<std::vector<Point>>;

bool drawable(double value) { return std::abs(value) < 1e300; }  // gnuplot adds and squares; false for NaN

Pieces pieces_of(const Series& series, bool log_y) {
    Pieces pieces(1);
    for (std::size_t i = 0; i < series.x.size(); ++i) {
        const double x = series.x[i], y = series.y[i];
        if (drawable(x) && drawable(y) && (!log_y || y > 0.0)) {
            const bool has_error = !series.error.empty() && drawable(series.error[i]) && series.error[i] >= 0.0;
            pieces.back().push_back({x, y, has_error ? series.error[i] : 0.0, has_error});
        } else if (!pieces.back().empty()) {
            pieces.emplace_back();
        }
    }
    if (pieces.back().empty()) pieces.pop_back();
    return pieces;
}

struct Range {
    double low = HUGE_VAL, high = -HUGE_VAL;

    void add(double value) {
        low = std::min(low, value);
        high = std::max(high, value);
    }
    bool empty() const { return low > high; }

    /// With a margin of `margin` times its width, which is at least `least` times its values.
    Range widened(double margin, double least) const {
        if (empty()) return {0.0, 1.0};
        double span = std::max(high - low, least * std::max(std::abs(low), std::abs(high)));
        if (!(span > 1e-290)) span = 1.0;
        const double middle = low / 2.0 + high / 2.0, half = span * (0.5 + margin);
        return {middle - half, middle + half};
    }
};

/// The whole numbers of a short axis, layers for instance, are its ticks.
bool few_whole_numbers(const std::vector<Pieces>& all, const Range& range) {
    if (range.empty() || range.high - range.low > 24.0) return false;
    for (const Pieces& pieces : all)
        for (const auto& piece : pieces)
            for (const Point& point : piece)
                if (point.x != std::floor(point.x)) return false;
    return true;
}

/// A round number of which some three to seven fit, so that the labels of large numbers do not meet.
double tick_step(double width) {
    const double power = std::pow(10.0, std::floor(std::log10(width / 3.0)));
    for (const double digit : {5.0, 2.0})
        if (digit * power <= width / 3.0) return digit * power;
    return power;
}

struct Axes {
    std::string script;
    double bottom;
};

Axes axes_of(const Plot& plot, const std::vector<Pieces>& all) {
    Range x, y;
    for (const Pieces& pieces : all)
        for (const auto& piece : pieces)
            for (const Point& point : piece) {
                x.add(point.x);
                y.add(point.y);
                y.add(point.y + point.error);
                if (!plot.log_y || point.y > point.error) y.add(point.y - point.error);
            }
    const bool points = std::any_of(plot.series.begin(), plot.series.end(), [](const Series& s) { return s.points; });
    const Range horizontal = x.widened(points ? 0.04 : 0.0, x.low == x.high ? 0.1 : 1e-6);
    Range vertical = y.widened(0.04, 0.02);
    if (y.low >= 0.0) vertical.low = std::max(vertical.low, 0.0);  // no room below 0 for what cannot be there
    vertical.high = std::max(vertical.high, vertical.low + plot.least_span);
    std::string ticks;
    if (plot.log_y) {
        const gnuplot::Axis axis = gnuplot::logarithmic_axis(y.empty() ? 1.0 : y.low, y.empty() ? 1.0 : y.high);
        vertical = {axis.low, axis.high};
        ticks = "set logscale y\n" + axis.ticks;
    }
    std::ostringstream script;
    script.precision(9);
    script << "set xrange [" << horizontal.low << ':' << horizontal.high << "]\nset xtics "
           << (few_whole_numbers(all, x) ? 1.0 : tick_step(horizontal.high - horizontal.low)) << "\nset yrange ["
           << vertical.low << ':' << vertical.high << "]\n"
           << ticks;
    return {script.str(), vertical.low};
}

/// Rows of x, y and the ends of the band or bar, with a blank line for each gap.
/// @param bottom the least that the axis shows, where a band that reaches below it ends
template <class Chosen>
void data_block(std::ostream& script, const std::string& name, const Pieces& pieces, double bottom,
                const Chosen& chosen) {
    script << "$" << name << " << EOD\n";
    for (const auto& piece : pieces) {
        for (const Point& point : piece) {
            if (!chosen(piece, point)) {
                script << '\n';
                continue;
            }
            script << point.x << ' ' << point.y << ' ' << std::max(point.y - point.error, bottom) << ' '
                   << point.y + point.error << '\n';
        }
        script << '\n';
    }
    script << "EOD\n";
}

std::size_t characters(const std::string& text) {
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
}

/// Text for gnuplot, in as many lines as it needs.
std::string wrapped(const std::string& text, std::size_t limit, std::size_t& lines) {
    std::istringstream words(text);
    std::string result, line;
    lines = 1;
    for (std::string word; words >> word;) {
        if (!line.empty() && characters(line) + 1 + characters(word) > limit) {
            result += gnuplot::quoted(line) + ".\"\\n\".";
            line.clear();
            ++lines;
        }
        line += (line.empty() ? "" : " ") + word;
    }
    return result + gnuplot::quoted(line);
}

std::string shortened(const std::string& name) {
    if (characters(name) <= longest_name) return name;
    std::string result = name;
    while (characters(result) >= longest_name) result.pop_back();
    return result + "…";
}

struct Look {
    std::string colour, line, points;
};

/// The first points have the colour of the first line, and so on: a prediction and its measurement.
std::vector<Look> looks_of(const Plot& plot) {
    std::vector<Look> looks;
    std::size_t count[2] = {0, 0};
    for (const Series& series : plot.series) {
        const std::size_t index = count[series.points]++;
        const gnuplot::Look& look = gnuplot::looks[index % gnuplot::looks.size()];
        const std::string colour = std::string("rgb '") + look.colour + "'";
        looks.push_back({colour, std::string("lines lw 2 dt ") + dashes[index % dashes.size()] + " lc " + colour,
                         "points pt " + std::to_string(series.points ? look.shape : 7) + " ps " +
                             (series.points ? "0.65" : "0.4") + " lc " + colour});
    }
    return looks;
}

}  // namespace

std::string gnuplot_script(const Plot& plot, const std::string& file) {
    std::vector<Pieces> all;
    std::size_t longest = 1;
    for (const Series& series : plot.series) {
        all.push_back(pieces_of(series, plot.log_y));
        longest = std::max(longest, characters(series.name));
    }
    const std::size_t columns = std::clamp<std::size_t>(width / (70 + 9 * std::min(longest, longest_name)), 1, 4);
    const std::size_t legend_rows = (plot.series.size() + columns - 1) / columns;
    std::size_t title_lines = 0, ignored = 0;
    const std::string title = wrapped(plot.title, 80, title_lines);

    const Axes axes = axes_of(plot, all);

    std::ostringstream script;
    script.precision(9);
    script << gnuplot::terminal(file, static_cast<int>(width),
                                static_cast<int>(plot_height + line_height * (legend_rows + title_lines + 1)))
           << "set output " << gnuplot::quoted(file) << "\nset encoding utf8\nset title " << title
           << " noenhanced\nset xlabel " << wrapped(plot.x_label, 90, ignored)
           << " offset 0,0.3 noenhanced\nset ylabel " << wrapped(plot.y_label, 45, ignored)
           << " noenhanced\n"
              "set rmargin 4\nset border 3 lw 0.8\nset tics nomirror out\nset grid ytics lt 1 lc rgb '#d8d8d8' lw 0.8 "
              "dt 1\n"
              "set format '%g'\n"
              "set key outside below center horizontal Left reverse noenhanced samplen 4 height 1 maxcols "
           << columns << '\n'
           << axes.script;

    const std::vector<Look> looks = looks_of(plot);
    std::ostringstream bands, lines, points, legend;
    for (std::size_t i = 0; i < plot.series.size(); ++i) {
        const Series& series = plot.series[i];
        const std::string index = std::to_string(i);
        const auto use = [&](std::ostream& layer, const std::string& name, const std::string& style,
                             const auto& chosen) {
            bool any = false;
            for (const auto& piece : all[i])
                for (const Point& point : piece) any = any || chosen(piece, point);
            if (!any) return;
            data_block(script, name + index, all[i], axes.bottom, chosen);
            layer << '$' << name << index << " using " << style << " notitle, ";
        };
        const auto alone = [](const auto& piece, const Point&) { return piece.size() == 1; };
        const auto joined = [](const auto& piece, const Point&) { return piece.size() > 1; };
        const auto every = [](const auto&, const Point&) { return true; };
        const auto in_band = [](const auto& piece, const Point& point) { return piece.size() > 1 && point.has_error; };
        const Look& look = looks[i];
        // Not yerrorbars, which gnuplot interrupts around the point, where a short bar has all its length.
        const std::string bars = "1:3:(0):($4-$3) with vectors nohead lw 1.5 lc " + look.colour +
                                 " notitle, '' using 1:2 with " + look.points;
        if (series.points) {
            use(points, "points", bars, every);
        } else {
            use(bands, "band", "1:3:4 with filledcurves fc " + look.colour + " fs transparent solid 0.15 noborder",
                in_band);
            use(lines, "line", "1:2 with " + look.line, joined);
            use(points, "alone", bars, alone);
        }
        legend << ", NaN with " << (series.points ? look.points : look.line) << " title "
               << gnuplot::quoted(shortened(series.name));
    }
    std::size_t drawn = 0;
    for (const Pieces& pieces : all) drawn += pieces.size();
    if (drawn == 0) script << "set label 'no values' at graph 0.5, graph 0.5 center\n";
    script << "plot " << bands.str() << lines.str() << points.str() << "NaN notitle" << legend.str()
           << "\nset output\n";
    return script.str();
}

}  // namespace reproduce
